use axum::Json;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::problem::Reason;

/// In whose words a door says what went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::routes) enum Words {
    OpenAi,
    Anthropic,
}

impl Words {
    /// Those of the clients that ask for this path; none where it is our own API's.
    fn of(path: &str) -> Option<Self> {
        match path {
            // The second is that of a client with a base URL that ends in /v1 as well.
            path if path.starts_with("/v1/messages") || path.starts_with("/v1/v1/messages") => {
                Some(Self::Anthropic)
            }
            path if path.starts_with("/v1/") => Some(Self::OpenAi),
            // Those of a client whose base URL lacks it.
            "/chat/completions" | "/models" | "/responses" | "/embeddings" => Some(Self::OpenAi),
            _ => None,
        }
    }

    /// The body of a response of that status.
    pub(super) fn error(self, status: StatusCode, code: &str, message: &str) -> Value {
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

/// Says what went wrong as the clients read it that ask for this path: whatever has refused the
/// request, from the token to the route.
pub(in crate::routes) async fn in_their_words(request: Request, next: Next) -> Response {
    let words = Words::of(request.uri().path());
    let mut response = next.run(request).await;
    let reason = response.extensions_mut().remove::<Reason>();
    if let (Some(words), Some(Reason { code, message })) = (words, reason) {
        let error = Json(words.error(response.status(), &code, &message)).into_response();
        let json = HeaderValue::from_static("application/json");
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, json);
        headers.remove(CONTENT_LENGTH);
        *response.body_mut() = Body::new(error.into_body());
    }
    response
}
