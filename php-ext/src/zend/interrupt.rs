use std::cell::RefCell;

use ext_php_rs::ffi::{
    ext_php_rs_executor_globals, zend_atomic_bool_store, zend_interrupt_function,
};

use super::guard::has_delayed_oom;
use super::{Failure, Result, ffi, run_guarded, web_client};

/// Does what the engine does between two opcodes: ends the request when `max_execution_time` has
/// elapsed, and runs pending signal handlers. Also ends the request when the client has
/// disconnected, as the engine does when it writes output. Native code must call this function
/// regularly while it waits.
///
/// # Errors
/// [`Failure::Bailout`] if the time has elapsed or the client has disconnected,
/// [`Failure::Pending`] if a signal handler threw an exception or called `exit()`.
pub fn check_interrupt() -> Result<()> {
    run_interrupts()?;
    if web_client::is_disconnected() {
        // SAFETY: the function records the disconnect and bails out, which the guard catches.
        return run_guarded(|| unsafe { ffi::php_handle_aborted_connection() });
    }
    Ok(())
}

fn run_interrupts() -> Result<()> {
    // SAFETY: the globals belong to this thread, and both flags are accessed with the engine's own
    // atomic functions.
    unsafe {
        let globals = ext_php_rs_executor_globals();
        if !ffi::zend_atomic_bool_load(&raw const (*globals).vm_interrupt) {
            return Ok(());
        }
        zend_atomic_bool_store(&raw mut (*globals).vm_interrupt, false);
        if ffi::zend_atomic_bool_load(&raw const (*globals).timed_out) {
            return run_guarded(|| ffi::zend_timeout());
        }
        let frame = (*globals).current_execute_data;
        match zend_interrupt_function {
            Some(interrupt) => run_guarded(|| interrupt(frame)),
            None => Ok(()),
        }
    }
}

/// Returns whether native code must stop: an exception is pending, or `memory_limit` is exceeded
/// and the engine waits for a safe point to report that. Loops that allocate the engine's memory
/// must call this function regularly, because further allocations would end the process.
pub fn should_stop() -> bool {
    // SAFETY: the code reads a field of this thread's globals. `ExecutorGlobals::get` would take a
    // lock.
    let has_exception = unsafe { !(*ext_php_rs_executor_globals()).exception.is_null() };
    has_exception || has_delayed_oom()
}

thread_local! {
    static NOTED_FAILURE: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// Checks for an interrupt like [`check_interrupt`], for a caller that cannot return the failure:
/// returns whether the caller must stop, and stores the failure for [`take_noted_interrupt`].
pub fn note_interrupt() -> bool {
    match check_interrupt() {
        Ok(()) => false,
        Err(failure) => {
            NOTED_FAILURE.set(Some(failure));
            true
        }
    }
}

/// Takes the failure that [`note_interrupt`] stored for this thread.
pub fn take_noted_interrupt() -> Option<Failure> {
    NOTED_FAILURE.take()
}

/// Returns whether the current fiber has a smaller stack than the runtime's work may need
/// (`fiber.stack_size`; PHP's default is 2 MB).
pub fn has_small_stack() -> bool {
    const MIN_STACK_BYTES: u64 = 1024 * 1024;
    // SAFETY: the code reads fields of this thread's globals.
    unsafe {
        let globals = ext_php_rs_executor_globals();
        // The field is converted, because it is a `zend_long` in PHP 8.2 and a `size_t` in later
        // versions.
        let stack_size = u64::try_from((*globals).fiber_stack_size);
        !(*globals).active_fiber.is_null()
            && stack_size.is_ok_and(|size| (1..MIN_STACK_BYTES).contains(&size))
    }
}
