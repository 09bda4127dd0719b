use std::time::Duration;

use pillion_core::tool::{ErrorCode, ToolFailure};

use super::{PILLION, RATE_LIMITED, error_code, for_code};
use crate::zend::{Failure, Object, Thrown, escape_bytes, rethrow, should_stop, take_exception};

/// Converts the failure of a tool to a failed call, unless the failure must end the request.
///
/// # Errors
/// The given failure, if it must end the request: a bailout or `exit()`.
pub fn into_tool_failure(failure: Failure) -> Result<ToolFailure, Failure> {
    match failure {
        Failure::Bailout => Err(Failure::Bailout),
        Failure::Thrown(thrown) => Ok(ToolFailure::new(code_of(&thrown), thrown.message)),
        Failure::Pending => match take_exception() {
            Some(exception) => {
                Object::from_value(&exception).map_or(Err(Failure::Pending), read_exception)
            }
            None => Err(Failure::Pending),
        },
    }
}

/// The outcome of PHP code that runs for a call. A failure ends only the call, unless it must end
/// the request.
pub type Caught<T> = Result<Result<T, ToolFailure>, Failure>;

/// Converts an exception of PHP code to the failure of its call.
///
/// # Errors
/// A failure that must end the request.
pub fn catch<T>(called: Caught<T>) -> Caught<T> {
    match called {
        // The destructor of a discarded value may have thrown an exception.
        Ok(_) if should_stop() => into_tool_failure(Failure::Pending).map(Err),
        Ok(outcome) => Ok(outcome),
        Err(failure) => into_tool_failure(failure).map(Err),
    }
}

/// Converts a failure to read the return value of a tool or callable to an internal error, because
/// the tool or callable is wrong, not the input. Exceptions of PHP code are returned unchanged.
pub fn as_internal(failure: Failure) -> Failure {
    match failure {
        Failure::Thrown(thrown) => for_code(ErrorCode::InternalError, thrown.message),
        other => other,
    }
}

fn read_exception(exception: Object<'_>) -> Result<ToolFailure, Failure> {
    let text = exception.call("getMessage", [])?;
    let message = text.zend_str().map(|text| escape_bytes(text.as_bytes()));
    let failure = ToolFailure::new(code_of_exception(exception)?, message.unwrap_or_default());
    if !exception.instance_of(RATE_LIMITED.get()) {
        return Ok(failure);
    }
    let seconds = exception.get(RATE_LIMITED.get(), "retryAfter")?.double();
    Ok(
        match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
            Some(wait) => failure.with_retry_after(wait),
            None => failure,
        },
    )
}

fn code_of(thrown: &Thrown) -> ErrorCode {
    let mut properties = thrown.properties.iter();
    properties
        .find(|(name, _)| *name == "errorCode")
        .and_then(|(_, code)| error_code(code.str()?))
        .unwrap_or(ErrorCode::InternalError)
}

fn code_of_exception(exception: Object<'_>) -> Result<ErrorCode, Failure> {
    if !exception.instance_of(PILLION.get()) {
        return Ok(ErrorCode::InternalError);
    }
    let name = exception.get(PILLION.get(), "errorCode")?;
    let code = name.str().and_then(error_code);
    Ok(code.unwrap_or(ErrorCode::InternalError))
}

/// Runs `work`, which may run PHP code, while a failure propagates, and passes the failure's error
/// code to it. Returns the original failure; an exception thrown by `work` is dropped. Does not run
/// `work` if the request must end at once.
pub fn run_during_failure(
    failure: Failure,
    work: impl FnOnce(ErrorCode) -> Result<(), Failure>,
) -> Failure {
    let exception_value = match &failure {
        Failure::Bailout => return failure,
        Failure::Thrown(_) => None,
        Failure::Pending => match take_exception() {
            None => return failure,
            exception_value => exception_value,
        },
    };
    let code = match (
        &failure,
        exception_value.as_ref().and_then(Object::from_value),
    ) {
        (Failure::Thrown(thrown), _) => Ok(code_of(thrown)),
        (_, Some(exception)) => code_of_exception(exception),
        _ => Ok(ErrorCode::InternalError),
    };
    if let Err(second) = code.and_then(work)
        && let Err(end) = into_tool_failure(second)
    {
        return end;
    }
    if let Some(exception) = exception_value {
        rethrow(exception);
    }
    failure
}
