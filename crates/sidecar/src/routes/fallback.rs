//! Responses to requests that no route handles.

use std::any::Any;

use axum::http::{Method, Uri};
use axum::response::{IntoResponse, Response};

use super::extract::Body;
use pillion_gateway::client_text::truncate_input;
use pillion_management::error::{
    InternalError, METHOD_NOT_ALLOWED, NOT_FOUND, RequestError, Result, route_error,
};

route_error! {
    /// The reason why no route handles a request.
    #[derive(Debug, thiserror::Error)]
    enum FallbackError {
        #[error("There is no route {}{}", truncate_input(path), base_url_hint(path))]
        UnknownRoute { path: String } => NOT_FOUND,
        #[error("The method {method} is not allowed for the route {}", truncate_input(path))]
        MethodNotAllowed { method: Method, path: String } => METHOD_NOT_ALLOWED,
    }
}

/// Returns a hint about the base URL for a path that clients of language models request.
fn base_url_hint(path: &str) -> &'static str {
    match path.trim_end_matches('/') {
        "/chat/completions" | "/models" | "/responses" | "/embeddings" => {
            "; the base URL of an OpenAI client must end in /v1"
        }
        "/v1/v1/messages" | "/v1/v1/messages/count_tokens" | "/v1/v1/models" => {
            "; the base URL of an Anthropic client must not end in /v1"
        }
        "/v1/v1/chat/completions" => "; the base URL of an OpenAI client must have only one /v1",
        _ => "",
    }
}

/// Reads the body before rejecting the request, because unread bytes would make the server close
/// the connection, and a client that keeps the connection alive would lose its next request.
pub(super) async fn reject_unknown_route(uri: Uri, _body: Result<Body>) -> RequestError {
    let path = uri.path().to_owned();
    FallbackError::UnknownRoute { path }.into()
}

pub(super) async fn reject_method(method: Method, uri: Uri) -> RequestError {
    let path = uri.path().to_owned();
    FallbackError::MethodNotAllowed { method, path }.into()
}

/// Responds to a panic of a handler. The executor catches panics of tools. The panic hook logs the
/// message, which the client does not get.
pub(super) fn respond_to_panic(_payload: Box<dyn Any + Send>) -> Response {
    RequestError::from(InternalError).into_response()
}
