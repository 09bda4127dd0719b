use std::cell::RefCell;

use ext_php_rs::ffi::{
    ext_php_rs_executor_globals, zend_atomic_bool_store, zend_interrupt_function,
};

use super::{Failure, ffi, guarded, web_client};

/// Does what the engine does between two opcodes: ends the request when
/// `max_execution_time` is over, runs the signal handlers that are due. And what it does
/// when it writes: ends the request when the client is gone. To be called from time to time
/// while native code waits.
///
/// # Errors
/// [`Failure::Bailout`] when the time is over or the client gone, [`Failure::Pending`] when
/// a signal handler threw or called `exit()`.
pub fn check_interrupt() -> Result<(), Failure> {
    run_interrupts()?;
    if web_client::has_gone() {
        // SAFETY: notes what has happened and bails out, which the guard takes.
        return guarded(|| unsafe { ffi::php_handle_aborted_connection() });
    }
    Ok(())
}

fn run_interrupts() -> Result<(), Failure> {
    // SAFETY: the globals of this thread, accessed as the engine does it, by its own
    // atomic functions for the two flags.
    unsafe {
        let globals = ext_php_rs_executor_globals();
        if !ffi::zend_atomic_bool_load(&raw const (*globals).vm_interrupt) {
            return Ok(());
        }
        zend_atomic_bool_store(&raw mut (*globals).vm_interrupt, false);
        if ffi::zend_atomic_bool_load(&raw const (*globals).timed_out) {
            return guarded(|| ffi::zend_timeout());
        }
        let frame = (*globals).current_execute_data;
        match zend_interrupt_function {
            Some(interrupt) => guarded(|| interrupt(frame)),
            None => Ok(()),
        }
    }
}

/// Whether native code must stop what it does: an exception is pending, or `memory_limit`
/// is reached and the engine waits for a safe point to say so. For loops that take memory
/// of the engine's: going on after this point gets the process killed.
pub fn must_stop() -> bool {
    // SAFETY: reads a field of this thread's globals; `ExecutorGlobals::get` takes a lock.
    let thrown = unsafe { !(*ext_php_rs_executor_globals()).exception.is_null() };
    thrown || has_delayed_oom()
}

#[cfg(php_delayed_oom)]
fn has_delayed_oom() -> bool {
    // SAFETY: reads a field of this thread's globals.
    unsafe { (*ext_php_rs_executor_globals()).delayed_oom.state != 0 }
}

#[cfg(not(php_delayed_oom))]
fn has_delayed_oom() -> bool {
    false
}

/// Lets the engine end the request if `memory_limit` was reached. Must be called inside a
/// guard.
pub(super) fn settle_memory_limit() {
    #[cfg(php_delayed_oom)]
    if has_delayed_oom() {
        // SAFETY: this is the safe point that the engine waits for.
        unsafe { ffi::zend_handle_delayed_oom() };
    }
}

thread_local! {
    static NOTED: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// Same as [`check_interrupt`], for a place that can only say "stop": says so, and keeps the
/// reason for [`noted_interrupt`].
pub fn note_interrupt() -> bool {
    match check_interrupt() {
        Ok(()) => false,
        Err(failure) => {
            NOTED.set(Some(failure));
            true
        }
    }
}

/// The reason that [`note_interrupt`] kept on this thread.
pub fn noted_interrupt() -> Option<Failure> {
    NOTED.take()
}

/// Whether this runs in a fiber with a smaller stack than the work of the runtime may take
/// (`fiber.stack_size`; PHP's default is 2 MB).
pub fn has_small_stack() -> bool {
    const ENOUGH: u64 = 1024 * 1024;
    // SAFETY: reads fields of this thread's globals.
    unsafe {
        let globals = ext_php_rs_executor_globals();
        // A `zend_long` in PHP 8.2, a `size_t` since.
        let size = u64::try_from((*globals).fiber_stack_size);
        !(*globals).active_fiber.is_null() && size.is_ok_and(|size| (1..ENOUGH).contains(&size))
    }
}
