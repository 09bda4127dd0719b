use std::io;
use std::num::NonZeroUsize;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval};

/// Maximum number of threads. More threads would only compete with tool processes for the CPUs.
const MAX_THREADS: usize = 8;

/// Interval of a timer that avoids wake-ups. A new timer that ends before all other timers wakes
/// its runtime, even if it is set on the runtime's own thread, and each call sets two timers. While
/// this timer ends earlier, these two wake nothing.
const TICK_INTERVAL: Duration = Duration::from_millis(500);

/// How often the remaining tasks of a runtime are polled before its thread ends.
const FINAL_POLLS: usize = 16;

/// Maximum time to wait for the end of the threads.
const JOIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Threads that serve connections, each with its own single-threaded runtime. A connection and all
/// its tasks stay on one thread.
///
/// A request is a chain of small steps. In a shared multi-threaded runtime, each step would wake
/// another thread to look for work, which for a call costs as much as all other work together.
#[derive(Debug)]
pub struct ServingThreads {
    threads: Vec<ServingThread>,
    next: usize,
}

#[derive(Debug)]
struct ServingThread {
    runtime: Handle,
    /// Dropping the sender ends the thread and all tasks that still run on it.
    _end: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl ServingThreads {
    /// Starts one thread per processor, up to 8.
    ///
    /// # Errors
    /// If the system cannot create the threads.
    pub fn start() -> io::Result<Self> {
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = (0..processors.min(MAX_THREADS)).map(|number| {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let handle = runtime.handle().clone();
            let (end, ended) = oneshot::channel::<()>();
            let thread = thread::Builder::new()
                .name(format!("pillion-serve-{number}"))
                .spawn(move || {
                    runtime.block_on(until(ended));
                    runtime.shutdown_background();
                })?;
            Ok(ServingThread {
                runtime: handle,
                _end: end,
                thread,
            })
        });
        Ok(Self {
            threads: threads.collect::<io::Result<_>>()?,
            next: 0,
        })
    }

    /// Ends the threads after polling their remaining tasks, which may record in the call log that
    /// a call was abandoned.
    pub async fn end(self) {
        let serving = self.threads.into_iter();
        // Dropping the other fields, including the sender, tells each thread to end.
        let threads: Vec<_> = serving.map(|serving| serving.thread).collect();
        let all = tokio::task::spawn_blocking(move || {
            for thread in threads {
                // A thread that panicked has also ended.
                let _ = thread.join();
            }
        });
        if tokio::time::timeout(JOIN_TIMEOUT, all).await.is_err() {
            tracing::warn!("A server thread did not stop in time");
        }
    }

    /// Returns the runtime of the next connection, round-robin.
    pub(super) fn next(&mut self) -> Handle {
        self.next = (self.next + 1) % self.threads.len();
        self.threads[self.next].runtime.clone()
    }
}

async fn until(mut ended: oneshot::Receiver<()>) {
    let mut ticks = interval(TICK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // An error means that the sender was dropped.
            _ = &mut ended => break,
            _ = ticks.tick() => {}
        }
    }
    for _ in 0..FINAL_POLLS {
        tokio::task::yield_now().await;
    }
}
