//! The state of the process: the tokio runtime, and the MCP clients whose sessions stay
//! warm from one PHP request to the next.
//!
//! This is the one place with process-wide state. FPM and the PHP command line leave no
//! other: objects end with the request, and a session that is opened anew for each request
//! costs more than the calls in it.
//!
//! - The runtime is made on first use, never at module start-up: FPM forks its workers
//!   after that, and threads do not survive a fork.
//! - After a fork (`pcntl_fork`) the child makes a runtime of its own. The parent's is
//!   forgotten, not dropped: dropping it would wait for threads that are not there, or
//!   take locks that they held.
//! - It has one worker thread, so that connections are served (pings, event streams)
//!   while PHP runs; a current-thread runtime would stand still between two calls.
//! - No PHP code ever runs inside `block_on`: see [`wait`](crate::wait).

use std::mem::ManuallyDrop;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::signal::SigSet;
use pillion_core::tool::ErrorCode;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::exception;
use crate::zend::Failure;

static PROCESS: Mutex<Option<Bound<Runtime>>> = Mutex::new(None);

fn process() -> MutexGuard<'static, Option<Bound<Runtime>>> {
    // A panic while the lock is held leaves a valid value behind.
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The runtime of this process.
///
/// # Errors
/// An `UnavailableException` when the system gives us no threads.
pub fn handle() -> Result<Handle, Failure> {
    let mut process = process();
    if let Some(runtime) = process.as_ref().and_then(Bound::get) {
        return Ok(runtime.handle().clone());
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(4)
        .thread_name("pillion")
        .on_thread_start(leave_signals_to_php)
        .enable_all()
        .build()
        .map_err(|error| {
            exception::of_code(
                ErrorCode::Unavailable,
                format!("Pillion cannot start its thread: {error}"),
            )
        })?;
    let handle = runtime.handle().clone();
    *process = Some(Bound::new(runtime));
    Ok(handle)
}

/// Ends the runtime at module shutdown, without waiting for work that is under way.
pub fn shut_down() {
    if let Some(runtime) = process().take().and_then(Bound::into_inner) {
        runtime.shutdown_background();
    }
}

/// PHP's signal handlers must run on PHP's thread: `pcntl` and the timer behind
/// `max_execution_time` write to the engine's globals. So ours take no signals.
fn leave_signals_to_php() {
    // Without it a signal handler runs on the wrong thread now and then; there is nothing
    // better to do about a failure here.
    let _ = SigSet::all().thread_block();
}

/// A value that only the process that made it may use or drop: anything with connections,
/// tasks or threads behind it. In a forked child it is forgotten.
#[derive(Debug)]
pub struct Bound<T> {
    value: ManuallyDrop<T>,
    process: u32,
}

impl<T> Bound<T> {
    /// Binds a value to this process.
    pub fn new(value: T) -> Self {
        Self {
            value: ManuallyDrop::new(value),
            process: std::process::id(),
        }
    }

    /// The value, in the process that made it.
    pub fn get(&self) -> Option<&T> {
        self.is_ours().then_some(&*self.value)
    }

    fn into_inner(mut self) -> Option<T> {
        let ours = self.is_ours();
        // Nobody owns it any more, so that `drop` leaves the value alone.
        self.process = 0;
        // SAFETY: the value is taken once: `self` ends here and `drop` does not touch it.
        ours.then(|| unsafe { ManuallyDrop::take(&mut self.value) })
    }

    fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }
}

impl<T> Drop for Bound<T> {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
