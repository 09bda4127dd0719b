//! Which threads receive signals, and when.
//!
//! PHP's handlers must run on PHP's threads: `pcntl` and the timer behind `max_execution_time`
//! write to the globals of the Zend engine. Therefore our own threads block all signals. A thread
//! inherits the signal mask of the thread that creates it, and tokio creates threads on PHP's
//! thread while it drives the runtime. Therefore the driving thread blocks all signals as well. It
//! unblocks them while it sleeps, where they cannot interrupt code of the runtime, so that a signal
//! can end the process at any time.

use std::cell::Cell;
use std::ptr;

use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};

thread_local! {
    /// The signal mask of the thread before it began to drive. `None` while it does not drive.
    static BEFORE: Cell<Option<SigSet>> = const { Cell::new(None) };
}

/// Blocks all signals on this thread permanently.
pub(super) fn take_none() {
    // If the call fails, a signal handler occasionally runs on the wrong thread. There is no better
    // reaction to a failure here and below.
    let _ = SigSet::all().thread_block();
}

/// Threads that `work` creates receive no signals.
pub(super) fn without<R>(work: impl FnOnce() -> R) -> R {
    let _signals = Deferred::new();
    work()
}

/// Called when a driving thread goes to sleep. Hides SIGPIPE from PHP: see [`forget_broken_pipe`].
pub(super) fn let_through() {
    if let Some(mut before) = BEFORE.get() {
        before.add(Signal::SIGPIPE);
        let _ = before.thread_set_mask();
    }
}

/// Called when the thread has woken up.
pub(super) fn hold_back() {
    if BEFORE.get().is_some() {
        take_none();
    }
}

/// Returns whether this thread is inside the runtime, even in a signal handler.
pub(super) fn are_deferred() -> bool {
    BEFORE.get().is_some()
}

/// Blocks the signals of this thread as long as this value lives.
pub(super) struct Deferred(());

impl Deferred {
    pub(super) fn new() -> Self {
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK);
        BEFORE.set(before.ok());
        Self(())
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        if let Some(before) = BEFORE.take() {
            if !before.contains(Signal::SIGPIPE) {
                forget_broken_pipe();
            }
            let _ = before.thread_set_mask();
        }
    }
}

/// A write to a connection that the server has closed raises SIGPIPE on the writing thread. The
/// write already returns an error. PHP may have a handler for the signal, or the signal may end the
/// process.
fn forget_broken_pipe() {
    let mut pipe = SigSet::empty();
    pipe.add(Signal::SIGPIPE);
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the set and the time live until the call returns; nothing is written.
    unsafe { libc::sigtimedwait(pipe.as_ref(), ptr::null_mut(), &raw const at_once) };
}
