//! Error responses as problem details (RFC 9457).

use axum::Json;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use pillion_core::store::{StoreError, StoreErrorKind};
use pillion_core::tool::ErrorCode;
use pillion_wire::Failure;
use serde::Serialize;

/// A problem details object that also has the members of [`Failure`]. The response has the media
/// type `application/problem+json`.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Problem {
    /// Always `about:blank`; `error_code` identifies the problem.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The standard reason phrase of the HTTP status code.
    title: &'static str,
    /// The HTTP status of the response.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// The error message, same as `error`.
    detail: String,
    #[serde(flatten)]
    failure: Failure,
    /// The error's code in OpenAI-compatible APIs.
    #[serde(skip)]
    openai_code: Option<&'static str>,
}

/// The code and message of a [`Problem`], attached to its response as an HTTP extension. APIs with
/// their own error format read this value.
#[derive(Debug, Clone)]
pub struct ProblemSummary {
    /// The error's code.
    pub code: String,
    /// The error's message.
    pub message: String,
}

impl Problem {
    /// Creates a problem with this status, error code and message.
    #[must_use]
    pub fn new(status: StatusCode, code: ErrorCode, detail: String) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            failure: Failure::new(code.as_str(), detail.clone()),
            detail,
            openai_code: None,
        }
    }

    /// Returns the HTTP status of the response.
    #[must_use]
    pub fn http_status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns the error message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.detail
    }

    /// Sets the error's code in OpenAI-compatible APIs.
    #[must_use]
    pub fn with_openai_code(mut self, code: &'static str) -> Self {
        self.openai_code = Some(code);
        self
    }

    /// Adds the tool and the details of a failure.
    #[must_use]
    pub fn with_failure_details(mut self, failure: &Failure) -> Self {
        self.failure.tool.clone_from(&failure.tool);
        self.failure.details.clone_from(&failure.details);
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.http_status();
        let code = self.openai_code.unwrap_or(&self.failure.error_code);
        let reason = ProblemSummary {
            code: code.to_owned(),
            message: self.detail.clone(),
        };
        let mut response = (status, Json(self)).into_response();
        response.extensions_mut().insert(reason);
        let content_type = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    }
}

/// Returns the HTTP status for an error of the store.
pub fn store_error_status(error: &StoreError) -> StatusCode {
    match error.kind() {
        StoreErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        StoreErrorKind::NotFound => StatusCode::NOT_FOUND,
        StoreErrorKind::Conflict => StatusCode::CONFLICT,
        StoreErrorKind::Invalid => StatusCode::BAD_REQUEST,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
