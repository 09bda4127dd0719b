use std::io;
use std::num::NonZeroUsize;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval};

/// More would only share what the processors have with the tools' own processes.
const MOST: usize = 8;

/// A runtime is woken by a timer that ends before any other that it knows, even if it is its own
/// thread that sets it, and every call sets two. With one that always ends earlier, none is.
const TICK: Duration = Duration::from_millis(500);

/// How often the tasks that are left have their turn before their thread ends.
const TURNS: usize = 16;

/// How long the end of the threads is waited for.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Threads that serve connections, each by itself: a connection stays where it was put, and
/// so does what is done for it.
///
/// A request is a chain of small steps. With one runtime for all threads each step would wake
/// another thread to see whether there is something to be taken over, which for a call costs
/// as much as everything else.
#[derive(Debug)]
pub struct Lanes {
    lanes: Vec<Lane>,
    next: usize,
}

#[derive(Debug)]
struct Lane {
    runtime: Handle,
    /// Dropped, it ends the thread, and whatever still runs on it.
    _end: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Lanes {
    /// One for each processor.
    ///
    /// # Errors
    /// When the system gives us no threads.
    pub fn start() -> io::Result<Self> {
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let lanes = (0..processors.min(MOST)).map(|number| {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let handle = runtime.handle().clone();
            let (end, ended) = oneshot::channel::<()>();
            let thread = thread::Builder::new()
                .name(format!("pillion-lane-{number}"))
                .spawn(move || {
                    runtime.block_on(until(ended));
                    runtime.shutdown_background();
                })?;
            Ok(Lane {
                runtime: handle,
                _end: end,
                thread,
            })
        });
        Ok(Self {
            lanes: lanes.collect::<io::Result<_>>()?,
            next: 0,
        })
    }

    /// Ends the threads, when what was left to them has been begun: that a call was given up is
    /// written down by a task.
    pub async fn end(self) {
        let lanes = self.lanes.into_iter();
        // With the other end of its channel a thread is told.
        let threads: Vec<_> = lanes.map(|lane| lane.thread).collect();
        let all = tokio::task::spawn_blocking(move || {
            for thread in threads {
                // One that panicked has ended, too.
                let _ = thread.join();
            }
        });
        if tokio::time::timeout(LAST_WORDS, all).await.is_err() {
            tracing::warn!("A thread that serves does not end");
        }
    }

    /// Where the next connection goes.
    pub(super) fn next(&mut self) -> Handle {
        self.next = (self.next + 1) % self.lanes.len();
        self.lanes[self.next].runtime.clone()
    }
}

async fn until(mut ended: oneshot::Receiver<()>) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // An error says the same: nobody needs the lane any more.
            _ = &mut ended => break,
            _ = ticks.tick() => {}
        }
    }
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
}
