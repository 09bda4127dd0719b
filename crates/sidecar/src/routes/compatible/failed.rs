//! Error responses for failed chats, in the format of each API.

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use pillion_core::tool::ErrorCode;
use serde_json::Value;

use super::{CHAT_HEADER, ErrorFormat};
use crate::chat::Ended;

/// The header that OpenAI's and Anthropic's clients check before they retry a request.
pub(in crate::routes) const SHOULD_RETRY_HEADER: HeaderName =
    HeaderName::from_static("x-should-retry");

/// Returns the error response.
pub(super) fn response(error_format: ErrorFormat, ended: &Ended) -> Response {
    let (status, error) = body(error_format, ended);
    let mut response = (status, Json(error)).into_response();
    let headers = response.headers_mut();
    let answer = &ended.answer;
    if let (true, Ok(id)) = (ended.is_stored, HeaderValue::from_str(&answer.id)) {
        headers.insert(CHAT_HEADER, id);
    }
    let is_final = ended.failure.as_ref().is_some_and(|it| it.is_final);
    if ended.is_stored || !answer.tool_calls.is_empty() || is_final {
        // A retry by the client would start a new chat and run tools again, or would fail again.
        headers.insert(SHOULD_RETRY_HEADER, HeaderValue::from_static("false"));
    }
    if let Some(after) = answer.retry_after {
        let seconds = HeaderValue::from(after.ceil().max(0.0) as u64);
        headers.insert(RETRY_AFTER, seconds);
    }
    response
}

/// Returns status and body.
pub(super) fn body(error_format: ErrorFormat, ended: &Ended) -> (StatusCode, Value) {
    let answer = &ended.answer;
    if answer.error.is_none() && !answer.approvals.is_empty() {
        let ids = answer.approvals.iter().filter_map(|it| it.id.as_deref());
        let ids: Vec<_> = ids.collect();
        let tools: Vec<_> = answer.approvals.iter().map(|it| it.tool.as_str()).collect();
        let message = format!(
            "Calls to {} are waiting for approval ({}). Approve or deny them, and send the request \
             again with the header {CHAT_HEADER}: {}",
            tools.join(", "),
            ids.join(", "),
            answer.id
        );
        let code = ErrorCode::ApprovalRequired.as_str();
        let status = StatusCode::FORBIDDEN;
        return (status, error_format.error(status, code, &message));
    }
    let code = answer.error_code.as_deref().unwrap_or("internal_error");
    let provider_status = ended.failure.as_ref().and_then(|it| it.status);
    let provider_status = provider_status.and_then(|status| StatusCode::from_u16(status).ok());
    let status = provider_status.unwrap_or(match code {
        "invalid_input" => StatusCode::BAD_REQUEST,
        "rate_limited" => StatusCode::TOO_MANY_REQUESTS,
        "timeout" => StatusCode::GATEWAY_TIMEOUT,
        "unavailable" => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_GATEWAY,
    });
    let message = answer
        .error
        .as_deref()
        .unwrap_or("The model did not finish its answer");
    (status, error_format.error(status, code, message))
}
