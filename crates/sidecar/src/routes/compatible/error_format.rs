use axum::Json;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use pillion_gateway::problem::ProblemSummary;

/// The error format of a compatible API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::routes) enum ErrorFormat {
    OpenAi,
    Anthropic,
}

impl ErrorFormat {
    /// Returns the error format of the API that a path belongs to; `None` for Pillion's own API.
    fn for_path(path: &str) -> Option<Self> {
        match path {
            // Clients with an extra `/v1` in their base URL request `/v1/v1/messages`.
            path if path.starts_with("/v1/messages") || path.starts_with("/v1/v1/messages") => {
                Some(Self::Anthropic)
            }
            path if path.starts_with("/v1/") => Some(Self::OpenAi),
            // Clients without `/v1` in their base URL request these paths.
            "/chat/completions" | "/models" | "/responses" | "/embeddings" => Some(Self::OpenAi),
            _ => None,
        }
    }

    /// Returns the body of an error response.
    pub(super) fn format_error(self, status: StatusCode, code: &str, message: &str) -> Value {
        match self {
            Self::OpenAi => {
                let kind = match status {
                    StatusCode::FORBIDDEN => code,
                    StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
                    status if status.is_client_error() => "invalid_request_error",
                    _ => "api_error",
                };
                json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
            }
            Self::Anthropic => {
                let kind = match status.as_u16() {
                    401 => "authentication_error",
                    403 => "permission_error",
                    404 => "not_found_error",
                    413 => "request_too_large",
                    429 => "rate_limit_error",
                    408 | 504 => "timeout_error",
                    400..=499 => "invalid_request_error",
                    503 => "overloaded_error",
                    _ => "api_error",
                };
                let error = json!({"type": kind, "message": message, "code": code});
                json!({"type": "error", "error": error})
            }
        }
    }
}

/// Rewrites error responses in the format of the API that the path belongs to, whichever layer
/// rejected the request.
pub(in crate::routes) async fn rewrite_errors(request: Request, next: Next) -> Response {
    let error_format = ErrorFormat::for_path(request.uri().path());
    let mut response = next.run(request).await;
    let reason = response.extensions_mut().remove::<ProblemSummary>();
    if let (Some(error_format), Some(ProblemSummary { code, message })) = (error_format, reason) {
        let error_response =
            Json(error_format.format_error(response.status(), &code, &message)).into_response();
        let json_type = HeaderValue::from_static("application/json");
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, json_type);
        headers.remove(CONTENT_LENGTH);
        *response.body_mut() = Body::new(error_response.into_body());
    }
    response
}
