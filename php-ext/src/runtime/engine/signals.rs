//! Determines which threads receive signals, and when.
//!
//! PHP's handlers must run on PHP's threads: `pcntl` and the timer behind `max_execution_time`
//! write to the globals of the Zend engine. Therefore the threads of the extension block all
//! signals. A thread inherits the signal mask of the thread that creates it, and tokio creates
//! threads on PHP's thread while PHP's thread drives the runtime. Therefore the driving thread
//! blocks all signals as well. The driving thread unblocks the signals only while it sleeps, so
//! that a signal can end the process but cannot interrupt code of the runtime.

use std::cell::Cell;
use std::ptr;

use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};

thread_local! {
    /// The signal mask that the thread had before it began to drive the runtime; `None` while it
    /// does not drive.
    static PREVIOUS_MASK: Cell<Option<SigSet>> = const { Cell::new(None) };
}

/// Blocks all signals on this thread permanently.
pub(super) fn block_all() {
    // Errors of the signal functions in this file are ignored: after an error, a signal handler may
    // run on the wrong thread, which is better than ending the process.
    let _ = SigSet::all().thread_block();
}

/// Runs `work` with all signals blocked, so that threads that `work` creates receive no signals.
pub(super) fn with_signals_blocked<R>(work: impl FnOnce() -> R) -> R {
    let _signal_block = SignalBlock::new();
    work()
}

/// Unblocks the signals when a driving thread goes to sleep. Hides SIGPIPE from PHP: see
/// [`discard_sigpipe`].
pub(super) fn unblock_for_sleep() {
    if let Some(mut previous_mask) = PREVIOUS_MASK.get() {
        previous_mask.add(Signal::SIGPIPE);
        let _ = previous_mask.thread_set_mask();
    }
}

/// Blocks the signals again when a driving thread has woken up.
pub(super) fn block_after_sleep() {
    if PREVIOUS_MASK.get().is_some() {
        block_all();
    }
}

/// Returns whether this thread has a [`SignalBlock`], even while the signals are unblocked for a
/// sleep. In a signal handler, true means that the signal has interrupted the driving thread.
pub(super) fn are_blocked() -> bool {
    PREVIOUS_MASK.get().is_some()
}

/// Blocks the signals of this thread until this value is dropped.
pub(super) struct SignalBlock(());

impl SignalBlock {
    pub(super) fn new() -> Self {
        let previous_mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK);
        PREVIOUS_MASK.set(previous_mask.ok());
        Self(())
    }
}

impl Drop for SignalBlock {
    fn drop(&mut self) {
        if let Some(previous_mask) = PREVIOUS_MASK.take() {
            if !previous_mask.contains(Signal::SIGPIPE) {
                discard_sigpipe();
            }
            let _ = previous_mask.thread_set_mask();
        }
    }
}

/// Discards a pending SIGPIPE, which a write to a connection raises on the writing thread if the
/// server has closed the connection. The write already returns an error, and in PHP the signal may
/// run a handler or end the process.
fn discard_sigpipe() {
    let mut sigpipe_set = SigSet::empty();
    sigpipe_set.add(Signal::SIGPIPE);
    let timeout = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the set and the time live until the call returns; nothing is written.
    unsafe { libc::sigtimedwait(sigpipe_set.as_ref(), ptr::null_mut(), &raw const timeout) };
}
