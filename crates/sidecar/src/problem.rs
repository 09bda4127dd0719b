//! Refusals as problem details (RFC 9457).

use axum::Json;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use pillion_core::tool::ErrorCode;
use serde::Serialize;

/// A problem, which is also a [`Failure`](pillion_wire::Failure): its members have the same
/// names here.
#[derive(Debug, Clone, Serialize)]
pub struct Problem {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    success: bool,
    error: String,
    error_code: &'static str,
}

impl Problem {
    /// A problem of that status and code (C5), in words.
    #[must_use]
    pub fn new(status: StatusCode, code: ErrorCode, detail: String) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            error: detail.clone(),
            detail,
            success: false,
            error_code: code.as_str(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }
}
