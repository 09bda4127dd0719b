use std::io::{BufRead, Read};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::time::Instant;

use super::progress::ProgressDisplay;
use crate::output::eprint;

/// Maximum length of a line that the user enters, in bytes.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// The terminal at which the user responds to a server's elicitations.
pub(super) struct Terminal {
    progress: Arc<ProgressDisplay>,
    /// The lines that the user enters; `None` before the first prompt. Locked during a
    /// conversation, so that there is only one conversation at a time.
    lines: Mutex<Option<mpsc::Receiver<String>>>,
    prompt_stopwatch: PromptDuration,
    /// Notified when Ctrl-C is pressed during a prompt.
    interrupt_notify: Notify,
}

/// Exclusive access to the user's terminal, until dropped.
pub(super) struct UserConversation<'a> {
    terminal: &'a Terminal,
    _timer: PromptTimer<'a>,
    lines: tokio::sync::MutexGuard<'a, Option<mpsc::Receiver<String>>>,
}

/// The user pressed Ctrl-C, or the input ended.
#[derive(Debug)]
pub(super) struct PromptCancelled;

impl Terminal {
    pub(super) fn new(progress: Arc<ProgressDisplay>) -> Self {
        Self {
            progress,
            lines: Mutex::default(),
            prompt_stopwatch: PromptDuration::default(),
            interrupt_notify: Notify::new(),
        }
    }

    /// Waits until no other conversation is in progress, and starts one.
    pub(super) async fn start_conversation(&self) -> UserConversation<'_> {
        let lines = self.lines.lock().await;
        self.progress.finish();
        // A Ctrl-C that was pressed between two prompts is discarded.
        let _ = self.interrupt_notify.notified().now_or_never();
        UserConversation {
            terminal: self,
            _timer: self.prompt_stopwatch.begin(),
            lines,
        }
    }

    /// Cancels the current prompt because of Ctrl-C. Returns `false` if there is no prompt.
    pub(super) fn interrupt(&self) -> bool {
        let is_prompting = self.prompt_stopwatch.is_prompting();
        if is_prompting {
            self.interrupt_notify.notify_one();
        }
        is_prompting
    }

    /// Returns the time that the user has taken to respond.
    pub(super) fn prompt_stopwatch(&self) -> &PromptDuration {
        &self.prompt_stopwatch
    }
}

impl UserConversation<'_> {
    /// Writes to standard error. Errors are ignored: a closed terminal is detected when input is
    /// read.
    pub(super) fn write(&self, text: &str) {
        eprint(text);
    }

    /// Prints `prompt`, and returns the line that the user enters, trimmed.
    ///
    /// # Errors
    /// [`PromptCancelled`]: the user pressed Ctrl-C or Ctrl-D.
    pub(super) async fn ask(&mut self, prompt: &str) -> Result<String, PromptCancelled> {
        self.write(prompt);
        let lines = self.lines.get_or_insert_with(read_lines);
        let line = tokio::select! {
            line = lines.recv() => line,
            () = self.terminal.interrupt_notify.notified() => None,
        };
        if line.is_none() {
            self.write("\n");
        }
        line.map(|line| line.trim().to_owned())
            .ok_or(PromptCancelled)
    }
}

impl Drop for UserConversation<'_> {
    fn drop(&mut self) {
        self.terminal.progress.begin();
    }
}

/// Reads standard input in a thread: a read cannot be cancelled, and the process does not wait for
/// this thread when it exits.
fn read_lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = String::new();
            let read_result = input.by_ref().take(MAX_LINE_BYTES).read_line(&mut line);
            if !matches!(read_result, Ok(1..)) || sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Measures the time that the user takes to respond to prompts, which does not count toward the
/// timeout of requests.
#[derive(Default)]
pub(super) struct PromptDuration(parking_lot::Mutex<PromptSpans>);

#[derive(Default)]
struct PromptSpans {
    started_at: Option<Instant>,
    previous_total: Duration,
}

/// Measures the duration of one prompt, until dropped.
pub(super) struct PromptTimer<'a>(&'a PromptDuration);

impl PromptDuration {
    pub(super) fn begin(&self) -> PromptTimer<'_> {
        self.0.lock().started_at = Some(Instant::now());
        PromptTimer(self)
    }

    pub(super) fn is_prompting(&self) -> bool {
        self.0.lock().started_at.is_some()
    }

    /// Returns the time that the command has waited for the user so far.
    pub(super) fn total(&self) -> Duration {
        let spans = self.0.lock();
        let current = spans.started_at.map(|started_at| started_at.elapsed());
        spans.previous_total + current.unwrap_or_default()
    }
}

impl Drop for PromptTimer<'_> {
    fn drop(&mut self) {
        let mut spans = self.0.0.lock();
        if let Some(started_at) = spans.started_at.take() {
            spans.previous_total += started_at.elapsed();
        }
    }
}
