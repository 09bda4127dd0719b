//! The classes of exceptions, by error code. The module `exception` registers them.

use pillion_core::tool::ErrorCode;

use super::{ClassSlot, Failure};

/// The base class of all exceptions that the extension throws.
pub static PILLION: ClassSlot = ClassSlot::new();
pub static INVALID_INPUT: ClassSlot = ClassSlot::new();
pub static NOT_FOUND: ClassSlot = ClassSlot::new();
pub static RATE_LIMITED: ClassSlot = ClassSlot::new();
pub static TIMEOUT: ClassSlot = ClassSlot::new();
pub static UNAVAILABLE: ClassSlot = ClassSlot::new();
pub static CANCELLED: ClassSlot = ClassSlot::new();
pub static APPROVAL_REQUIRED: ClassSlot = ClassSlot::new();
pub static DENIED: ClassSlot = ClassSlot::new();

/// Creates an exception for invalid input.
pub fn invalid_input(message: impl Into<String>) -> Failure {
    for_code(ErrorCode::InvalidInput, message)
}

/// Creates the exception for an error code.
pub fn for_code(code: ErrorCode, message: impl Into<String>) -> Failure {
    Failure::new(class_for_code(code), code, message)
}

/// Returns the class of the exceptions with this code.
pub fn class_for_code(code: ErrorCode) -> &'static ClassSlot {
    match code {
        ErrorCode::InvalidInput => &INVALID_INPUT,
        ErrorCode::NotFound => &NOT_FOUND,
        ErrorCode::RateLimited => &RATE_LIMITED,
        ErrorCode::Timeout => &TIMEOUT,
        ErrorCode::Unavailable => &UNAVAILABLE,
        ErrorCode::Cancelled => &CANCELLED,
        ErrorCode::ApprovalRequired => &APPROVAL_REQUIRED,
        ErrorCode::Denied => &DENIED,
        _ => &PILLION,
    }
}
