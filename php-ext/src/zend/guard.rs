use std::panic::AssertUnwindSafe;

#[cfg(php_delayed_oom)]
use ext_php_rs::ffi::ext_php_rs_executor_globals;
use ext_php_rs::zend::{CatchError, ExecutorGlobals, try_catch};

#[cfg(php_delayed_oom)]
use super::ffi;
use super::{Failure, Result};

/// Runs code that may call PHP code, and returns even after a bail-out.
///
/// A bail-out (`longjmp`) inside `body` is caught and becomes [`Failure::Bailout`], so that the
/// Rust frames of the callers run their destructors. Everything that `body` itself holds at that
/// time is leaked, so it should hold only Zend values, which the engine frees at the end of the
/// request.
///
/// # Errors
/// [`Failure::Pending`] if an exception is pending afterwards, [`Failure::Bailout`] after a
/// bail-out, or an `Error` if `body` panics.
pub fn run_guarded<R>(body: impl FnOnce() -> R) -> Result<R> {
    let run = || {
        let value = body();
        enforce_memory_limit();
        value
    };
    match try_catch(AssertUnwindSafe(run)) {
        Ok(_) if ExecutorGlobals::has_exception() => Err(Failure::Pending),
        Ok(value) => Ok(value),
        Err(CatchError::Bailout) => Err(Failure::Bailout),
        Err(error) => Err(Failure::error(format!("Pillion: {error}"))),
    }
}

#[cfg(php_delayed_oom)]
pub(super) fn has_delayed_oom() -> bool {
    // SAFETY: the code reads a field of this thread's globals.
    unsafe { (*ext_php_rs_executor_globals()).delayed_oom.state != 0 }
}

#[cfg(not(php_delayed_oom))]
pub(super) fn has_delayed_oom() -> bool {
    false
}

/// Lets the engine end the request if `memory_limit` is exceeded. Must be called inside a guard.
fn enforce_memory_limit() {
    #[cfg(php_delayed_oom)]
    if has_delayed_oom() {
        // SAFETY: the engine reports the exceeded limit only at a safe point, and this code is a
        // safe point.
        unsafe { ffi::zend_handle_delayed_oom() };
    }
}
