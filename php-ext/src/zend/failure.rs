use std::ffi::CString;

use ext_php_rs::ffi::zend_throw_exception;
use ext_php_rs::types::Zval;
use ext_php_rs::zend::{ClassEntry, bailout};

use super::Object;

/// Why a native method does not return a value.
///
/// It travels up through Rust by `?`, so that every destructor runs, and becomes what PHP
/// knows only in [`raise`](Self::raise), at the very edge.
#[derive(Debug)]
pub enum Failure {
    /// An exception of ours, to be thrown.
    Thrown(Box<Thrown>),
    /// An exception is already pending in the engine: thrown by PHP code that we called,
    /// by the engine's own checks, or the one by which `exit()` unwinds.
    Pending,
    /// The engine gave up the request (a fatal error, `max_execution_time`,
    /// `memory_limit`) inside a guarded call.
    Bailout,
}

/// An exception that is not thrown yet.
#[derive(Debug)]
pub struct Thrown {
    pub class: &'static ClassEntry,
    pub message: String,
    pub code: i64,
    /// Values for the exception's own properties.
    pub properties: Vec<(&'static str, Zval)>,
}

impl Failure {
    /// A plain `Error`: the program is wrong, as opposed to its input.
    pub fn error(message: impl Into<String>) -> Self {
        Self::Thrown(Box::new(Thrown {
            class: ext_php_rs::zend::ce::error(),
            message: message.into(),
            code: 0,
            properties: Vec::new(),
        }))
    }

    /// Hands the failure to the engine. Does not return from a bail-out, so nothing with a
    /// destructor may be alive in the caller.
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
