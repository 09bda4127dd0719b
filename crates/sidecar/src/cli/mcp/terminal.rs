use std::io::{BufRead, Write};
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::{Mutex, Notify, mpsc};

use super::asking::{Asking, AskingTime};
use super::progress::ProgressDisplay;

/// No answer is longer.
const LONGEST_LINE: u64 = 64 * 1024;

/// The user at the terminal, whom a server may ask something.
pub(super) struct Terminal {
    progress: Arc<ProgressDisplay>,
    /// One question at a time.
    conversation: Mutex<Option<mpsc::Receiver<String>>>,
    time: AskingTime,
    /// Ctrl-C came during a question.
    interrupted: Notify,
}

/// The user's attention, until it is dropped.
pub(super) struct Conversation<'a> {
    terminal: &'a Terminal,
    _asking: Asking<'a>,
    lines: tokio::sync::MutexGuard<'a, Option<mpsc::Receiver<String>>>,
}

/// The user pressed Ctrl-C, or there is no more input.
#[derive(Debug)]
pub(super) struct Cancelled;

impl Terminal {
    pub(super) fn new(progress: Arc<ProgressDisplay>) -> Self {
        Self {
            progress,
            conversation: Mutex::default(),
            time: AskingTime::default(),
            interrupted: Notify::new(),
        }
    }

    /// Waits for the end of other conversations and begins one.
    pub(super) async fn talk(&self) -> Conversation<'_> {
        let lines = self.conversation.lock().await;
        self.progress.finish();
        // A Ctrl-C that came after the last question was answered is not for this one.
        let _ = self.interrupted.notified().now_or_never();
        Conversation {
            terminal: self,
            _asking: self.time.begin(),
            lines,
        }
    }

    /// Takes a Ctrl-C as the answer to the question; false when there is none.
    pub(super) fn interrupt(&self) -> bool {
        let is_asking = self.time.is_asking();
        if is_asking {
            self.interrupted.notify_one();
        }
        is_asking
    }

    /// How long the user has been asked things so far.
    pub(super) fn time(&self) -> &AskingTime {
        &self.time
    }
}

impl Conversation<'_> {
    /// Writes to standard error; a terminal that is gone shows in the next answer.
    pub(super) fn say(&self, text: &str) {
        let mut output = std::io::stderr().lock();
        drop(
            output
                .write_all(text.as_bytes())
                .and_then(|()| output.flush()),
        );
    }

    /// The user's next line, without what is around it.
    ///
    /// # Errors
    /// [`Cancelled`] by Ctrl-C or Ctrl-D.
    pub(super) async fn answer(&mut self, prompt: &str) -> Result<String, Cancelled> {
        self.say(prompt);
        let lines = self.lines.get_or_insert_with(read_lines);
        let line = tokio::select! {
            line = lines.recv() => line,
            () = self.terminal.interrupted.notified() => None,
        };
        let Some(line) = line else {
            self.say("\n");
            return Err(Cancelled);
        };
        Ok(line.trim().to_owned())
    }
}

impl Drop for Conversation<'_> {
    fn drop(&mut self) {
        self.terminal.progress.begin();
    }
}

/// Reads standard input in a thread: a read that has begun cannot be given up, and the
/// process does not wait for this thread when it ends.
fn read_lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = String::new();
            let read = std::io::Read::take(&mut input, LONGEST_LINE).read_line(&mut line);
            if !matches!(read, Ok(1..)) || sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
