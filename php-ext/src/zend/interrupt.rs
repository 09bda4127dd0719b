use std::cell::RefCell;

use ext_php_rs::ffi::{
    ext_php_rs_executor_globals, zend_atomic_bool_store, zend_interrupt_function,
};

use super::{Failure, ffi, guarded};

/// Does what the engine does between two opcodes: ends the request when
/// `max_execution_time` is over, runs the signal handlers that are due. To be called from
/// time to time while native code waits.
///
/// # Errors
/// [`Failure::Bailout`] when the time is over, [`Failure::Pending`] when a signal handler
/// threw or called `exit()`.
pub fn check_interrupt() -> Result<(), Failure> {
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

thread_local! {
    static NOTED: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// As [`check_interrupt`], for a place that can only say "stop": says so, and keeps the
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
