//! Throws exceptions, and clears pending exceptions so that Rust code can handle them.

use std::ffi::CString;
use std::mem::ManuallyDrop;

use ext_php_rs::ffi::{zend_throw_exception, zend_throw_exception_object};
use ext_php_rs::types::Zval;
use ext_php_rs::zend::{ExecutorGlobals, bailout};

use super::{ExceptionData, Failure, Object, ffi};

impl Failure {
    /// Passes the failure to PHP's engine. Does not return from a bail-out, so the caller must not
    /// hold any value with a destructor.
    pub(super) fn raise(self) {
        match self {
            Self::Pending => {}
            Self::Exception(exception) => exception.throw(),
            // SAFETY: only `call::enter` calls this method, inside the `zend_try` of `run_handler`,
            // which catches the jump; `self` holds nothing in this variant.
            Self::Bailout => unsafe { bailout() },
        }
    }
}

impl ExceptionData {
    fn throw(self) {
        let message = CString::new(self.message.replace('\0', "\\0")).unwrap_or_default();
        let class = std::ptr::from_ref(self.class).cast_mut();
        // SAFETY: the class entry is that of a throwable class, and the message is copied. The new
        // exception is pending, which keeps it alive.
        let exception_object =
            unsafe { Object::from_raw(zend_throw_exception(class, message.as_ptr(), self.code)) };
        let Some(exception) = exception_object else {
            return;
        };
        for (name, value) in self.properties {
            exception.set(self.class, name, value);
        }
    }
}

/// Clears and returns the pending exception, so that the caller can handle the exception as a
/// failed call. Returns `None` if no exception is pending, or if the pending exception unwinds the
/// stack after `exit()`, because this unwinding must continue.
pub fn take_exception() -> Option<Zval> {
    let exception_pointer = ExecutorGlobals::get().exception;
    // SAFETY: a pending exception is a live object, which the engine holds until the exception is
    // cleared below; then the new reference holds it.
    let exception = unsafe { Object::from_raw(exception_pointer) }?;
    if is_unwinding(exception) {
        return None;
    }
    let exception_value = exception.to_value();
    // SAFETY: the function also restores the opline that the throw changed.
    unsafe { ffi::zend_clear_exception() };
    Some(exception_value)
}

/// Throws an exception that [`take_exception`] has taken.
pub fn rethrow(exception: Zval) {
    let mut unowned_exception = ManuallyDrop::new(exception);
    // SAFETY: the value is an object of a throwable class; the engine takes its reference.
    unsafe { zend_throw_exception_object(&raw mut *unowned_exception) };
}

/// Returns whether an exception is the engine's internal exception that unwinds the stack after
/// `exit()` or at the end of a fiber.
fn is_unwinding(exception: Object<'_>) -> bool {
    // SAFETY: both functions only compare the object's class.
    unsafe {
        ffi::zend_is_unwind_exit(exception.as_ptr())
            || ffi::zend_is_graceful_exit(exception.as_ptr())
    }
}
