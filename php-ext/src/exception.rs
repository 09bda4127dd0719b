//! The exceptions of `Pillion\Exception`, and the conversion of engine failures to exceptions.

mod caught;

use ext_php_rs::error::Result;
use ext_php_rs::types::Zval;
use pillion_client::ClientError;
use pillion_core::tool::ErrorCode;
use pillion_mcp_client::{ErrorClass, McpError, McpErrorKind};
use serde_json::Value;

use crate::json::{EmptyObject, decode};
use crate::zend::exception_class::{
    APPROVAL_REQUIRED, CANCELLED, INVALID_INPUT, PILLION, RATE_LIMITED, TIMEOUT, class_for_code,
};
pub use crate::zend::exception_class::{for_code, invalid_input};
use crate::zend::{
    Class, ClassSlot, ExceptionData, Failure, member, new_float, new_int, new_list, new_string,
    runtime_exception, take_noted_interrupt, to_float,
};
pub use caught::{
    PhpOutcome, catch_exception, into_internal_error, into_tool_failure, run_during_failure,
};

static TRANSPORT: ClassSlot = ClassSlot::new();
static SESSION_EXPIRED: ClassSlot = ClassSlot::new();
static AUTHORIZATION: ClassSlot = ClassSlot::new();
static JSON_RPC: ClassSlot = ClassSlot::new();

/// Registers the exception classes. The classes inherit PHP's constructor, so that the exceptions
/// have the correct file, line and trace.
pub fn register() -> Result<()> {
    let base_error_code = interned_string(ErrorCode::InternalError.as_str())?;
    Class::new("Pillion\\Exception\\PillionException")
        .property_with_default("string $errorCode", base_error_code)
        .extends(runtime_exception())
        .register(&PILLION)?;
    for (name, code) in [
        (
            "Pillion\\Exception\\InvalidInputException",
            ErrorCode::InvalidInput,
        ),
        ("Pillion\\Exception\\NotFoundException", ErrorCode::NotFound),
        ("Pillion\\Exception\\TimeoutException", ErrorCode::Timeout),
        (
            "Pillion\\Exception\\UnavailableException",
            ErrorCode::Unavailable,
        ),
        ("Pillion\\Exception\\DeniedException", ErrorCode::Denied),
        (
            "Pillion\\Exception\\CancelledException",
            ErrorCode::Cancelled,
        ),
    ] {
        child_class_with_code(name, code)?.register(class_for_code(code))?;
    }
    child_class_with_code(
        "Pillion\\Exception\\ApprovalRequiredException",
        ErrorCode::ApprovalRequired,
    )?
    .property_with_default("string $approvalId", interned_string("")?)
    .property_with_default("string $toolName", interned_string("")?)
    .property("array $arguments = []")
    .register(&APPROVAL_REQUIRED)?;
    child_class_with_code(
        "Pillion\\Exception\\RateLimitedException",
        ErrorCode::RateLimited,
    )?
    .property("?float $retryAfter = null")
    .register(&RATE_LIMITED)?;
    child_class_with_code(
        "Pillion\\Exception\\TransportException",
        ErrorCode::Unavailable,
    )?
    .property("?int $httpStatus = null")
    .register(&TRANSPORT)?;
    Class::new("Pillion\\Exception\\SessionExpiredException")
        .extends(TRANSPORT.get())
        .register(&SESSION_EXPIRED)?;
    child_class("Pillion\\Exception\\AuthorizationException")
        .property("?int $httpStatus = null")
        .property("?string $challenge = null")
        .property("?string $authorizationUrl = null")
        .property("array $scopes = []")
        .register(&AUTHORIZATION)?;
    // The default of `rpcCode` is -1, for an error that a JSON-RPC server sent without a code.
    child_class("Pillion\\Exception\\JsonRpcException")
        .property("int $rpcCode = -1")
        .property("mixed $data = null")
        .register(&JSON_RPC)
}

fn child_class(name: &'static str) -> Class {
    Class::new(name).extends(PILLION.get())
}

/// Registers an exception class like [`child_class`], but with a fixed error code, so that PHP code
/// that throws the exception does not need to set the code.
fn child_class_with_code(name: &'static str, code: ErrorCode) -> Result<Class> {
    let code_value = interned_string(code.as_str())?;
    Ok(child_class(name).property_with_default("string $errorCode", code_value))
}

/// Returns a string as the default value of a property. The string is interned, because a default
/// value must not be reference-counted.
fn interned_string(text: &str) -> Result<Zval> {
    let mut value = Zval::new();
    value.set_interned_string(text, true)?;
    Ok(value)
}

/// A failed result that PHP code has created.
pub struct FailedResult {
    pub tool_name: String,
    pub error: String,
    /// The error code of the result. PHP code may use codes that the engine does not know.
    pub code: String,
    pub metadata: Zval,
}

/// Creates the exception for a failed result.
pub fn for_result(result: &FailedResult) -> Failure {
    let code = parse_error_code(&result.code).unwrap_or(ErrorCode::InternalError);
    let mut exception = ExceptionData::new(class_for_code(code), code, result.error.clone());
    exception.properties = vec![("errorCode", new_string(&result.code))];
    let metadata_entry = |name: &str| member(&result.metadata, name);
    match code {
        ErrorCode::RateLimited => {
            let seconds = metadata_entry("retry_after").as_ref().and_then(to_float);
            let property = seconds.map(|seconds| ("retryAfter", new_float(seconds)));
            exception.properties.extend(property);
        }
        ErrorCode::ApprovalRequired => {
            let id = metadata_entry("approval_id").filter(Zval::is_string);
            let arguments = metadata_entry("arguments").filter(Zval::is_array);
            for (name, value) in [("approvalId", id), ("arguments", arguments)] {
                exception
                    .properties
                    .extend(value.map(|value| (name, value)));
            }
            exception.add("toolName", new_string(&result.tool_name));
        }
        _ => {}
    }
    Failure::Exception(Box::new(exception))
}

/// Creates an exception for a peer that cannot be reached, closes the connection, or sends an
/// invalid message.
pub fn transport_failure(message: impl Into<String>) -> Failure {
    Failure::new(&TRANSPORT, ErrorCode::Unavailable, message)
}

/// Creates the exception for a failed request to an MCP server, with the error message of the MCP
/// client.
pub fn for_mcp_error(error: &McpError) -> Failure {
    let code = pillion_mcp_tools::error_code(error.class());
    let message = error.to_string();
    if let Some(rpc_error) = error.rpc_error() {
        // If the server's `data` is invalid, the exception has no data: the server's error matters
        // more than its data.
        let data = rpc_error
            .data
            .as_deref()
            .and_then(|data| decode(data.get(), EmptyObject::Array).ok()?.ok());
        let mut exception = ExceptionData::new(&JSON_RPC, code, message);
        exception.code = rpc_error.code;
        exception.add("rpcCode", new_int(rpc_error.code));
        exception.add("data", data.unwrap_or_default());
        return Failure::Exception(Box::new(exception));
    }
    if is_authorization_error(error) {
        return Failure::Exception(Box::new(for_authorization_error(error, message)));
    }
    let class = match code {
        ErrorCode::Timeout => &TIMEOUT,
        ErrorCode::RateLimited => &RATE_LIMITED,
        ErrorCode::InvalidInput => &INVALID_INPUT,
        ErrorCode::Cancelled => &CANCELLED,
        _ if matches!(error.kind(), McpErrorKind::SessionExpired) => &SESSION_EXPIRED,
        _ => &TRANSPORT,
    };
    let mut exception = ExceptionData::new(class, code, message);
    if let (ErrorCode::RateLimited, Some(delay)) = (code, error.retry_after()) {
        exception.add("retryAfter", new_float(delay.as_secs_f64()));
    }
    if let (Some(status), true) = (error.http_status(), exception.class == TRANSPORT.get()) {
        exception.add("httpStatus", new_int(i64::from(status)));
    }
    Failure::Exception(Box::new(exception))
}

/// Returns whether an error means that the server requires or rejects a credential, or that no
/// credential could be obtained.
fn is_authorization_error(error: &McpError) -> bool {
    match error.kind() {
        McpErrorKind::HttpStatus { status, .. } => matches!(status, 401 | 403),
        McpErrorKind::Authorization(_) => error.class() == ErrorClass::Denied,
        _ => false,
    }
}

/// Creates an exception for a denied authorization.
pub fn authorization_denied(message: impl Into<String>) -> Failure {
    Failure::new(&AUTHORIZATION, ErrorCode::Denied, message)
}

/// Adds the authorization URL and the scopes to an `AuthorizationException`. Returns any other
/// failure unchanged.
pub fn with_authorization(failure: Failure, url: &str, scopes: &[String]) -> Failure {
    match failure {
        Failure::Exception(mut exception) if exception.class == AUTHORIZATION.get() => {
            exception.add("authorizationUrl", new_string(url));
            exception.add("scopes", new_list(scopes.iter().map(new_string)));
            Failure::Exception(exception)
        }
        failure => failure,
    }
}

fn for_authorization_error(error: &McpError, message: String) -> ExceptionData {
    let code = pillion_mcp_tools::error_code(error.class());
    let mut exception = ExceptionData::new(&AUTHORIZATION, code, message);
    if let Some(status) = error.http_status() {
        exception.add("httpStatus", new_int(i64::from(status)));
    }
    if let Some(challenge) = error.challenge() {
        exception.add("scopes", new_list(challenge.scopes.iter().map(new_string)));
        exception.add("challenge", new_string(challenge.header));
    }
    exception
}

/// Returns the failure of a request to which the sidecar did not respond: an exception, or the
/// failure that interrupted the wait.
pub fn for_client_error(error: &ClientError) -> Failure {
    let code = parse_error_code(error.code()).unwrap_or(ErrorCode::InternalError);
    match error {
        ClientError::Interrupted => take_noted_interrupt().unwrap_or(Failure::Pending),
        ClientError::TooLarge { .. }
        | ClientError::Protocol { .. }
        | ClientError::Decode { .. }
        | ClientError::Disconnected { .. } => transport_failure(error.to_string()),
        _ => for_code(code, error.to_string()),
    }
}

/// Returns the error code with this name; `None` for an error code of the application, which the
/// engine does not define.
pub fn parse_error_code(name: &str) -> Option<ErrorCode> {
    serde_json::from_value(Value::String(name.to_owned())).ok()
}
