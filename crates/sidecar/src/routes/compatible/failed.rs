//! Error responses for failed chats, in the format of each API.

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use pillion_core::tool::ErrorCode;
use serde_json::Value;

use super::{CHAT_HEADER, ErrorFormat};
use pillion_management::chat::ChatOutcome;

/// The header that OpenAI's and Anthropic's clients check before they retry a request.
pub(in crate::routes) const SHOULD_RETRY_HEADER: HeaderName =
    HeaderName::from_static("x-should-retry");

/// Returns the error response for a failed chat.
pub(super) fn build_response(error_format: ErrorFormat, outcome: &ChatOutcome) -> Response {
    let (status, error) = body(error_format, outcome);
    let mut response = (status, Json(error)).into_response();
    let headers = response.headers_mut();
    let chat = &outcome.response;
    if let (true, Ok(id)) = (outcome.is_stored, HeaderValue::from_str(&chat.id)) {
        headers.insert(CHAT_HEADER, id);
    }
    let is_final = outcome
        .failure
        .as_ref()
        .is_some_and(|failure| failure.is_final);
    if outcome.is_stored || !chat.tool_calls.is_empty() || is_final {
        // Tells clients not to retry: a retry would start a new chat and run tools again, or would
        // fail again.
        headers.insert(SHOULD_RETRY_HEADER, HeaderValue::from_static("false"));
    }
    if let Some(delay) = chat.retry_after {
        let seconds = HeaderValue::from(delay.ceil().max(0.0) as u64);
        headers.insert(RETRY_AFTER, seconds);
    }
    response
}

/// Returns the status and the body of the error response.
pub(super) fn body(error_format: ErrorFormat, outcome: &ChatOutcome) -> (StatusCode, Value) {
    let chat = &outcome.response;
    if chat.error.is_none() && !chat.approvals.is_empty() {
        let approvals = chat.approvals.iter();
        let tools: Vec<_> = approvals
            .clone()
            .map(|approval| approval.tool.as_str())
            .collect();
        let ids: Vec<_> = approvals
            .filter_map(|approval| approval.id.as_deref())
            .collect();
        let message = format!(
            "Calls to {} are waiting for approval ({}). Approve or deny them, and send the request \
             again with the header {CHAT_HEADER}: {}",
            tools.join(", "),
            ids.join(", "),
            chat.id
        );
        let code = ErrorCode::ApprovalRequired.as_str();
        let status = StatusCode::FORBIDDEN;
        return (status, error_format.format_error(status, code, &message));
    }
    let code = chat.error_code.as_deref().unwrap_or("internal_error");
    let status_number = outcome.failure.as_ref().and_then(|failure| failure.status);
    let provider_status = status_number.and_then(|status| StatusCode::from_u16(status).ok());
    let status = provider_status.unwrap_or(match code {
        "invalid_input" => StatusCode::BAD_REQUEST,
        "rate_limited" => StatusCode::TOO_MANY_REQUESTS,
        "timeout" => StatusCode::GATEWAY_TIMEOUT,
        "unavailable" => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_GATEWAY,
    });
    let message = chat
        .error
        .as_deref()
        .unwrap_or("The model did not finish its answer");
    (status, error_format.format_error(status, code, message))
}
