use ext_php_rs::types::Zval;
use ext_php_rs::zend::ClassEntry;
use pillion_core::tool::ErrorCode;

use super::{ClassSlot, new_string};

/// The result of an operation that can run PHP code.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// The result of a native method.
pub type Outcome = Result<Zval>;

/// The reason why a native method does not return a value.
///
/// A failure propagates through Rust with `?`, so that every destructor runs. Only
/// [`raise`](Self::raise), at the outermost level, passes the failure to PHP.
#[derive(Debug)]
pub enum Failure {
    /// An exception of the extension that is not thrown yet.
    Exception(Box<ExceptionData>),
    /// An exception is already pending in PHP's engine: thrown by called PHP code, by the engine's
    /// own checks, or used to unwind after `exit()`.
    Pending,
    /// PHP's engine aborted the request (a fatal error, `max_execution_time`, `memory_limit`)
    /// inside a guarded call.
    Bailout,
}

/// An exception that is not thrown yet.
#[derive(Debug)]
pub struct ExceptionData {
    pub class: &'static ClassEntry,
    pub message: String,
    pub code: i64,
    /// The values of the exception's own properties.
    pub properties: Vec<(&'static str, Zval)>,
}

impl Failure {
    /// Creates an exception with an error code.
    pub fn new(class: &ClassSlot, code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Exception(Box::new(ExceptionData::new(class, code, message)))
    }

    /// Creates PHP's own `Error`, which reports a mistake in the PHP code rather than in its input.
    pub fn error(message: impl Into<String>) -> Self {
        Self::Exception(Box::new(ExceptionData {
            class: ext_php_rs::zend::ce::error(),
            message: message.into(),
            code: 0,
            properties: Vec::new(),
        }))
    }
}

impl ExceptionData {
    /// Creates an exception with an error code.
    pub fn new(class: &ClassSlot, code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            class: class.get(),
            message: message.into(),
            code: 0,
            properties: vec![("errorCode", new_string(code.as_str()))],
        }
    }

    /// Adds a value of one of the exception's own properties.
    pub fn add(&mut self, name: &'static str, value: Zval) {
        self.properties.push((name, value));
    }
}
