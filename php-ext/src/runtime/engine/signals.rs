//! Which thread takes signals, and when.
//!
//! PHP's handlers must run on PHP's threads: `pcntl` and the timer behind
//! `max_execution_time` write to the globals of the engine. So threads of ours take none.
//! A thread inherits what its maker holds back, and tokio starts threads on PHP's while that
//! drives: hence all signals wait meanwhile. They come through while it sleeps, where no
//! code of the runtime's is interrupted: a process can be ended at any time.

use std::cell::Cell;
use std::ptr;

use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};

thread_local! {
    /// What the thread held back before it began to drive; none while it does not.
    static BEFORE: Cell<Option<SigSet>> = const { Cell::new(None) };
}

/// Holds all signals back on this thread for good.
pub(super) fn take_none() {
    // Without it a signal handler runs on the wrong thread now and then; there is nothing
    // better to do about a failure here, and below.
    let _ = SigSet::all().thread_block();
}

/// What threads are started in `work`, takes no signals.
pub(super) fn without<R>(work: impl FnOnce() -> R) -> R {
    let _signals = Deferred::new();
    work()
}

/// Called when a thread that drives goes to sleep. SIGPIPE is not for PHP to see: see
/// [`forget_broken_pipe`].
pub(super) fn let_through() {
    if let Some(mut before) = BEFORE.get() {
        before.add(Signal::SIGPIPE);
        let _ = before.thread_set_mask();
    }
}

/// Called when it has woken up.
pub(super) fn hold_back() {
    if BEFORE.get().is_some() {
        take_none();
    }
}

/// Whether this thread is inside the runtime, be it in a signal handler.
pub(super) fn are_deferred() -> bool {
    BEFORE.get().is_some()
}

/// While it lives, signals of this thread wait.
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

/// A write to a server that has closed its end raises SIGPIPE on the thread that writes. The
/// error is what counts; PHP may have a handler for the signal, or die of it.
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
