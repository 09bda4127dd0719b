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
    APPROVAL_REQUIRED, CANCELLED, INVALID_INPUT, PILLION, RATE_LIMITED, TIMEOUT, class_of,
    new_exception,
};
pub use crate::zend::exception_class::{for_code, invalid_input};
use crate::zend::{
    Class, ClassSlot, Failure, Thrown, float_of, int_of, list_of, member, noted_interrupt,
    runtime_exception, string_of,
};
pub use caught::{Caught, as_internal, catch, into_tool_failure, run_during_failure};

static TRANSPORT: ClassSlot = ClassSlot::new();
static SESSION_EXPIRED: ClassSlot = ClassSlot::new();
static AUTHORIZATION: ClassSlot = ClassSlot::new();
static JSON_RPC: ClassSlot = ClassSlot::new();

/// Registers the exception classes. They have no constructors of their own, so that file, line and
/// trace are correct.
pub fn register() -> Result<()> {
    let base_code = text(ErrorCode::InternalError.as_str())?;
    Class::new("Pillion\\Exception\\PillionException")
        .property_with_default("string $errorCode", base_code)
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
        child_of_code(name, code)?.register(class_of(code))?;
    }
    child_of_code(
        "Pillion\\Exception\\ApprovalRequiredException",
        ErrorCode::ApprovalRequired,
    )?
    .property_with_default("string $approvalId", text("")?)
    .property_with_default("string $toolName", text("")?)
    .property("array $arguments = []")
    .register(&APPROVAL_REQUIRED)?;
    child_of_code(
        "Pillion\\Exception\\RateLimitedException",
        ErrorCode::RateLimited,
    )?
    .property("?float $retryAfter = null")
    .register(&RATE_LIMITED)?;
    child_of_code(
        "Pillion\\Exception\\TransportException",
        ErrorCode::Unavailable,
    )?
    .property("?int $httpStatus = null")
    .register(&TRANSPORT)?;
    Class::new("Pillion\\Exception\\SessionExpiredException")
        .extends(TRANSPORT.get())
        .register(&SESSION_EXPIRED)?;
    child("Pillion\\Exception\\AuthorizationException")
        .property("?int $httpStatus = null")
        .property("?string $challenge = null")
        .property("?string $authorizationUrl = null")
        .property("array $scopes = []")
        .register(&AUTHORIZATION)?;
    // An error that a JSON-RPC server sent without a code has the `rpcCode` -1.
    child("Pillion\\Exception\\JsonRpcException")
        .property("int $rpcCode = -1")
        .property("mixed $data = null")
        .register(&JSON_RPC)
}

fn child(name: &'static str) -> Class {
    Class::new(name).extends(PILLION.get())
}

/// Creates a class like [`child`] does, with a fixed error code, so that PHP code that throws the
/// exception need not set the code.
fn child_of_code(name: &'static str, code: ErrorCode) -> Result<Class> {
    let code = text(code.as_str())?;
    Ok(child(name).property_with_default("string $errorCode", code))
}

/// Returns an interned string as a default value, which must not be reference-counted.
fn text(text: &str) -> Result<Zval> {
    let mut value = Zval::new();
    value.set_interned_string(text, true)?;
    Ok(value)
}

/// A failed result that PHP code has created.
pub struct FailedResult {
    pub tool_name: String,
    pub error: String,
    /// The error code of the result, possibly one that the engine does not know.
    pub code: String,
    pub metadata: Zval,
}

/// Creates the exception that a failed result throws.
pub fn for_result(result: &FailedResult) -> Failure {
    let code = error_code(&result.code).unwrap_or(ErrorCode::InternalError);
    let mut thrown = new_exception(class_of(code).get(), code, result.error.clone());
    thrown.properties = vec![("errorCode", string_of(&result.code))];
    let fact = |name: &str| member(&result.metadata, name);
    match code {
        ErrorCode::RateLimited => {
            let wait = fact("retry_after");
            let seconds = wait.and_then(|wait| wait.double().or(wait.long().map(seconds_of)));
            thrown
                .properties
                .extend(seconds.map(|seconds| ("retryAfter", float_of(seconds))));
        }
        ErrorCode::ApprovalRequired => {
            let id = fact("approval_id").filter(Zval::is_string);
            let arguments = fact("arguments").filter(Zval::is_array);
            let properties = [("approvalId", id), ("arguments", arguments)];
            thrown.properties.extend(
                properties
                    .into_iter()
                    .filter_map(|(name, value)| Some((name, value?))),
            );
            let name = string_of(&result.tool_name);
            thrown.properties.push(("toolName", name));
        }
        _ => {}
    }
    Failure::Thrown(Box::new(thrown))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "seconds: no precision is needed"
)]
fn seconds_of(whole: i64) -> f64 {
    whole as f64
}

/// Creates an exception for a peer that cannot be reached, closes the connection, or sends an
/// invalid message.
pub fn transport(message: impl Into<String>) -> Failure {
    let code = ErrorCode::Unavailable;
    Failure::Thrown(Box::new(new_exception(
        TRANSPORT.get(),
        code,
        message.into(),
    )))
}

/// Creates the exception for a failed request to an MCP server, with the message of the MCP client.
pub fn for_mcp_error(error: &McpError) -> Failure {
    let (code, message) = (
        pillion_mcp_tools::error_code(error.class()),
        error.to_string(),
    );
    if let Some(rpc) = error.rpc_error() {
        let number = int_of(rpc.code);
        // If `data` is invalid, the exception has no data, rather than hiding the server's error.
        let data = rpc
            .data
            .as_deref()
            .and_then(|data| decode(data.get(), EmptyObject::Array).ok()?.ok());
        let mut thrown = new_exception(JSON_RPC.get(), code, message);
        thrown.code = rpc.code;
        thrown.properties.push(("rpcCode", number));
        thrown.properties.push(("data", data.unwrap_or_default()));
        return Failure::Thrown(Box::new(thrown));
    }
    if is_authorization_error(error) {
        return Failure::Thrown(Box::new(for_authorization_error(error, message)));
    }
    let mut thrown = match code {
        ErrorCode::Timeout => new_exception(TIMEOUT.get(), code, message),
        ErrorCode::RateLimited => {
            let mut limited = new_exception(RATE_LIMITED.get(), code, message);
            if let Some(wait) = error.retry_after() {
                let seconds = float_of(wait.as_secs_f64());
                limited.properties.push(("retryAfter", seconds));
            }
            limited
        }
        ErrorCode::InvalidInput => new_exception(INVALID_INPUT.get(), code, message),
        ErrorCode::Cancelled => new_exception(CANCELLED.get(), code, message),
        _ if matches!(error.kind(), McpErrorKind::SessionExpired) => {
            new_exception(SESSION_EXPIRED.get(), code, message)
        }
        _ => new_exception(TRANSPORT.get(), code, message),
    };
    if let (Some(status), true) = (error.http_status(), thrown.class == TRANSPORT.get()) {
        let value = int_of(i64::from(status));
        thrown.properties.push(("httpStatus", value));
    }
    Failure::Thrown(Box::new(thrown))
}

/// Returns whether the server requires or rejects a credential, or whether no credential could be
/// obtained.
fn is_authorization_error(error: &McpError) -> bool {
    match error.kind() {
        McpErrorKind::HttpStatus { status, .. } => matches!(status, 401 | 403),
        McpErrorKind::Authorization(_) => error.class() == ErrorClass::Denied,
        _ => false,
    }
}

/// Creates an exception for a denied authorization.
pub fn authorization_denied(message: impl Into<String>) -> Failure {
    let code = ErrorCode::Denied;
    Failure::Thrown(Box::new(new_exception(
        AUTHORIZATION.get(),
        code,
        message.into(),
    )))
}

/// Adds the authorization URL and the scopes to an authorization failure.
pub fn with_authorization(failure: Failure, url: &str, scopes: &[String]) -> Failure {
    match failure {
        Failure::Thrown(mut thrown) if thrown.class == AUTHORIZATION.get() => {
            let scopes = list_of(scopes.iter().map(string_of));
            thrown.properties.push(("authorizationUrl", string_of(url)));
            thrown.properties.push(("scopes", scopes));
            Failure::Thrown(thrown)
        }
        other => other,
    }
}

fn for_authorization_error(error: &McpError, message: String) -> Thrown {
    let mut thrown = new_exception(
        AUTHORIZATION.get(),
        pillion_mcp_tools::error_code(error.class()),
        message,
    );
    if let Some(status) = error.http_status() {
        let status = int_of(i64::from(status));
        thrown.properties.push(("httpStatus", status));
    }
    if let Some(challenge) = error.challenge() {
        let scopes = list_of(challenge.scopes.iter().map(string_of));
        thrown.properties.push(("scopes", scopes));
        let header = string_of(challenge.header);
        thrown.properties.push(("challenge", header));
    }
    thrown
}

/// Returns the failure of a sidecar request without a response: an exception, or the interruption
/// of the wait.
pub fn for_client_error(error: &ClientError) -> Failure {
    let code = error_code(error.code()).unwrap_or(ErrorCode::InternalError);
    match error {
        ClientError::Interrupted => noted_interrupt().unwrap_or(Failure::Pending),
        ClientError::TooLarge { .. }
        | ClientError::Protocol { .. }
        | ClientError::Decode { .. }
        | ClientError::Disconnected { .. } => transport(error.to_string()),
        _ => for_code(code, error.to_string()),
    }
}

/// Returns the error code with this name; `None` for a name that the engine does not know, which
/// PHP code may use.
pub fn error_code(name: &str) -> Option<ErrorCode> {
    serde_json::from_value(Value::String(name.to_owned())).ok()
}
