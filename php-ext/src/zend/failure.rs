use std::ffi::CString;

use ext_php_rs::ffi::zend_throw_exception;
use ext_php_rs::types::Zval;
use ext_php_rs::zend::{ClassEntry, bailout};

use super::Object;

/// The reason why a native method does not return a value.
///
/// It propagates through Rust with `?`, so that every destructor runs. Only [`raise`](Self::raise),
/// at the outermost level, converts it to PHP's mechanism.
#[derive(Debug)]
pub enum Failure {
    /// An exception of the extension that is not thrown yet.
    Thrown(Box<Thrown>),
    /// An exception is already pending in the engine: thrown by called PHP code, by the engine's
    /// own checks, or used to unwind after `exit()`.
    Pending,
    /// The engine aborted the request (a fatal error, `max_execution_time`, `memory_limit`) inside
    /// a guarded call.
    Bailout,
}

/// An exception that is not thrown yet.
#[derive(Debug)]
pub struct Thrown {
    pub class: &'static ClassEntry,
    pub message: String,
    pub code: i64,
    /// Values of the exception's own properties.
    pub properties: Vec<(&'static str, Zval)>,
}

impl Failure {
    /// Creates a plain `Error`, for mistakes in the program rather than in its input.
    pub fn error(message: impl Into<String>) -> Self {
        Self::Thrown(Box::new(Thrown {
            class: ext_php_rs::zend::ce::error(),
            message: message.into(),
            code: 0,
            properties: Vec::new(),
        }))
    }

    /// Passes the failure to the engine. Does not return from a bail-out, so the caller must not
    /// hold any value with a destructor.
    pub(super) fn raise(self) {
        match self {
            Self::Pending => {}
            Self::Thrown(thrown) => thrown.throw(),
            // SAFETY: only `call::enter` calls this, inside the `zend_try` of `run_handler`,
            // which takes the jump; `self` holds nothing in this variant.
            Self::Bailout => unsafe { bailout() },
        }
    }
}

impl Thrown {
    fn throw(self) {
        let message = CString::new(self.message.replace('\0', "\\0")).unwrap_or_default();
        let class = std::ptr::from_ref(self.class).cast_mut();
        // SAFETY: the class entry is that of a throwable class; the message is copied. The
        // exception is pending now, which keeps it alive.
        let exception =
            unsafe { Object::from_raw(zend_throw_exception(class, message.as_ptr(), self.code)) };
        let Some(exception) = exception else { return };
        for (name, value) in self.properties {
            exception.set(self.class, name, value);
        }
    }
}
