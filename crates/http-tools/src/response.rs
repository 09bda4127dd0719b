//! Interprets the status and the body of HTTP responses.

use std::time::Duration;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use pillion_core::tool::{ErrorCode, ToolFailure, ToolOutput};
use pillion_core::{json_values, lone_surrogates};
use serde_json::{Value, json};

/// Maximum length of the server's message in the error of a call, in characters.
const MAX_REASON_CHARS: usize = 300;

/// Maximum length, in characters, of the response body that the failure of a call contains.
const MAX_FAILURE_CHARS: usize = 4_000;

/// Parses the body of a response as JSON if its content type or its content indicates JSON,
/// otherwise as text.
pub(crate) fn parse_body(headers: &HeaderMap, body: String) -> Result<Value, ToolFailure> {
    let content_type = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = content_type.map(|text| {
        let media_type = text.split(';').next().unwrap_or_default();
        media_type.trim().to_ascii_lowercase()
    });
    let is_json = essence
        .as_deref()
        .is_some_and(|essence| essence == "application/json" || essence.ends_with("+json"));
    if body.trim().is_empty() {
        return Ok(Value::Null);
    }
    if is_json && let Err(error) = json_values::check(body.as_bytes()) {
        return Err(ToolFailure::internal(format!("The response has {error}")));
    }
    match json_values::from_str(&lone_surrogates::replace(&body)) {
        Ok(value) if is_json || essence.is_none() => Ok(value),
        Err(_) if is_json => Err(ToolFailure::internal(
            "The response is not valid JSON, although its content type is JSON",
        )),
        _ => Ok(Value::String(body)),
    }
}

/// Returns the output of a successful call, which is the whole response or the configured part of
/// the response.
pub(crate) fn create_output(
    status: StatusCode,
    value: Value,
    result_at: Option<&str>,
) -> Result<ToolOutput, ToolFailure> {
    let result = match result_at {
        None => value,
        Some(pointer) => value.pointer(pointer).cloned().ok_or_else(|| {
            ToolFailure::internal(format!("The response has no value at {pointer}"))
        })?,
    };
    let output = match result {
        Value::Null if result_at.is_none() => {
            let text = format!("Done: status {}, no response body", status.as_u16());
            ToolOutput::text(text).with_data(Value::Null)
        }
        value => ToolOutput::value(value),
    };
    Ok(output.with_metadata("http_status", json!(status.as_u16())))
}

/// Returns the failure for a response with an error status, with the server's error message.
pub(crate) fn create_failure(
    host: &str,
    status: StatusCode,
    headers: &HeaderMap,
    value: Value,
) -> ToolFailure {
    let code = match status.as_u16() {
        401 | 403 | 407 => ErrorCode::Denied,
        404 | 410 => ErrorCode::NotFound,
        408 | 504 => ErrorCode::Timeout,
        429 => ErrorCode::RateLimited,
        400..=499 => ErrorCode::InvalidInput,
        500..=599 => ErrorCode::Unavailable,
        _ => ErrorCode::InternalError,
    };
    let message_suffix =
        find_error_message(&value).map_or_else(String::new, |reason| format!(": {reason}"));
    let message = format!(
        "'{host}' responded with HTTP status {}{message_suffix}",
        status.as_u16()
    );
    let mut failure = ToolFailure::new(code, message)
        .with_result(shorten(value))
        .with_metadata("http_status", json!(status.as_u16()));
    if let Some(retry_after_delay) = parse_retry_after(headers) {
        failure = failure.with_retry_after(retry_after_delay);
    }
    failure
}

/// Returns the seconds in `Retry-After`. Ignores a date, because the clocks of client and server
/// may differ.
fn parse_retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

/// Returns the error message in a response body, from the members that servers usually use.
fn find_error_message(value: &Value) -> Option<String> {
    let error = &value["error"];
    let texts = [
        &value["detail"],
        &error["message"],
        error,
        &value["message"],
        &value["title"],
    ];
    let text = texts.into_iter().find_map(Value::as_str)?;
    let prefix: String = text.chars().take(MAX_REASON_CHARS).collect();
    let reason = prefix.replace(char::is_control, " ");
    (!reason.trim().is_empty()).then_some(reason)
}

/// Returns the response body for the failure of a call. A body that is too long is converted to
/// text and truncated.
fn shorten(value: Value) -> Value {
    let text = match &value {
        Value::String(text) => text.clone(),
        _ => value.to_string(),
    };
    if text.chars().count() <= MAX_FAILURE_CHARS {
        return value;
    }
    Value::String(text.chars().take(MAX_FAILURE_CHARS).collect())
}
