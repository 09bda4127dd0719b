use std::time::Duration;

use pillion_core::tool::{ErrorCode, ToolFailure};

use super::{PILLION, RATE_LIMITED, for_code, parse_error_code};
use crate::zend::{
    ExceptionData, Failure, Object, Result, escape_bytes, rethrow, should_stop, take_exception,
};

/// Converts a failure into a [`ToolFailure`], and clears the pending exception if there is one.
/// Does not convert a failure that must end the PHP request.
///
/// # Errors
/// The given failure, if it must end the request: a bail-out or `exit()`.
pub fn into_tool_failure(failure: Failure) -> Result<ToolFailure> {
    match failure {
        Failure::Bailout => Err(Failure::Bailout),
        Failure::Exception(exception) => {
            Ok(ToolFailure::new(read_code(&exception), exception.message))
        }
        Failure::Pending => match take_exception() {
            Some(exception) => {
                Object::from_value(&exception).map_or(Err(Failure::Pending), read_exception)
            }
            None => Err(Failure::Pending),
        },
    }
}

/// The outcome of PHP code that runs for a call. The outer error is a failure that must end the PHP
/// request. The inner error is a failure that ends only the call.
pub type PhpOutcome<T> = Result<Result<T, ToolFailure>>;

/// Converts an exception of PHP code to the failure of its call.
///
/// # Errors
/// A failure that must end the PHP request: a bail-out or `exit()`.
pub fn catch_exception<T>(outcome: PhpOutcome<T>) -> PhpOutcome<T> {
    match outcome {
        // Checks for a pending exception, because the destructor of a discarded value may have
        // thrown one.
        Ok(_) if should_stop() => into_tool_failure(Failure::Pending).map(Err),
        Ok(result) => Ok(result),
        Err(failure) => into_tool_failure(failure).map(Err),
    }
}

/// Converts a failure that occurred while the return value of a tool or callable was read. The
/// failure becomes an internal error, because the error is in the tool or callable and not in its
/// input. Exceptions of PHP code are returned unchanged.
pub fn into_internal_error(failure: Failure) -> Failure {
    match failure {
        Failure::Exception(exception) => for_code(ErrorCode::InternalError, exception.message),
        failure => failure,
    }
}

fn read_exception(exception: Object<'_>) -> Result<ToolFailure> {
    let text = exception.call("getMessage", [])?;
    let message = text.zend_str().map(|text| escape_bytes(text.as_bytes()));
    let failure = ToolFailure::new(read_exception_code(exception)?, message.unwrap_or_default());
    if !exception.instance_of(RATE_LIMITED.get()) {
        return Ok(failure);
    }
    let seconds = exception.get(RATE_LIMITED.get(), "retryAfter")?.double();
    Ok(
        match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
            Some(delay) => failure.with_retry_after(delay),
            None => failure,
        },
    )
}

fn read_code(exception: &ExceptionData) -> ErrorCode {
    let mut properties = exception.properties.iter();
    properties
        .find(|(name, _)| *name == "errorCode")
        .and_then(|(_, code)| parse_error_code(code.str()?))
        .unwrap_or(ErrorCode::InternalError)
}

fn read_exception_code(exception: Object<'_>) -> Result<ErrorCode> {
    if !exception.instance_of(PILLION.get()) {
        return Ok(ErrorCode::InternalError);
    }
    let name = exception.get(PILLION.get(), "errorCode")?;
    let code = name.str().and_then(parse_error_code);
    Ok(code.unwrap_or(ErrorCode::InternalError))
}

/// Runs `work` with the error code of a failure, before the failure is returned to the caller.
/// `work` may run PHP code. Returns the original failure; an exception thrown by `work` is dropped.
/// Does not run `work` if the PHP request must end immediately.
pub fn run_during_failure(failure: Failure, work: impl FnOnce(ErrorCode) -> Result<()>) -> Failure {
    let pending_exception = match &failure {
        Failure::Bailout => return failure,
        Failure::Exception(_) => None,
        Failure::Pending => match take_exception() {
            None => return failure,
            exception => exception,
        },
    };
    let code = match (
        &failure,
        pending_exception.as_ref().and_then(Object::from_value),
    ) {
        (Failure::Exception(exception), _) => Ok(read_code(exception)),
        (_, Some(exception)) => read_exception_code(exception),
        _ => Ok(ErrorCode::InternalError),
    };
    if let Err(second_failure) = code.and_then(work)
        && let Err(final_failure) = into_tool_failure(second_failure)
    {
        return final_failure;
    }
    if let Some(exception) = pending_exception {
        rethrow(exception);
    }
    failure
}
