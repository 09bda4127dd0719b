//! What the errors of all routes have in common. Each route module has its own error, with its
//! status and error code beside it.

use std::fmt::Display;

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use pillion_core::tool::ErrorCode;
use pillion_gateway::problem::Problem;

/// The HTTP status and the error code of an error.
pub(super) type Status = (StatusCode, ErrorCode);

pub(super) const INVALID_INPUT: Status = (StatusCode::BAD_REQUEST, ErrorCode::InvalidInput);
pub(super) const DENIED: Status = (StatusCode::FORBIDDEN, ErrorCode::Denied);
pub(super) const NOT_FOUND: Status = (StatusCode::NOT_FOUND, ErrorCode::NotFound);
pub(super) const CONFLICT: Status = (StatusCode::CONFLICT, ErrorCode::InvalidInput);
pub(super) const RATE_LIMITED: Status = (StatusCode::TOO_MANY_REQUESTS, ErrorCode::RateLimited);
pub(super) const UNAVAILABLE: Status = (StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable);

/// The error of one kind of routes. `?` converts the error to a [`RequestError`].
pub(super) trait RouteError: Display {
    /// Returns the HTTP status and the error code.
    fn status(&self) -> Status;

    /// Returns the body of the response.
    fn problem(&self) -> Problem {
        let (status, code) = self.status();
        Problem::new(status, code, self.to_string())
    }

    /// Returns whether the client may repeat the request after a second.
    fn is_temporary(&self) -> bool {
        false
    }
}

/// Why a request was rejected before a tool ran: the response that a [`RouteError`] was converted
/// to.
#[derive(Debug)]
pub(super) struct RequestError {
    problem: Box<Problem>,
    is_temporary: bool,
}

impl RequestError {
    /// Returns the error for a parameter that is not `expected`.
    pub(super) fn parameter(name: &'static str, expected: impl Into<String>) -> Self {
        let expected = expected.into();
        InvalidParameter { name, expected }.into()
    }

    /// Returns the error for a parameter that is none of `words`.
    pub(super) fn word(name: &'static str, words: impl IntoIterator<Item = &'static str>) -> Self {
        let words: Vec<_> = words.into_iter().collect();
        Self::parameter(name, format!("one of {}", words.join(", ")))
    }
}

impl<E: RouteError> From<E> for RequestError {
    fn from(error: E) -> Self {
        Self {
            problem: Box::new(error.problem()),
            is_temporary: error.is_temporary(),
        }
    }
}

impl IntoResponse for RequestError {
    fn into_response(self) -> Response {
        let mut response = self.problem.into_response();
        if self.is_temporary {
            let soon = HeaderValue::from_static("1");
            response.headers_mut().insert(RETRY_AFTER, soon);
        }
        response
    }
}

/// A member of the query or the body, or a header, does not have the expected value.
#[derive(Debug, thiserror::Error)]
#[error("The parameter '{name}' must be {expected}")]
struct InvalidParameter {
    name: &'static str,
    expected: String,
}

impl RouteError for InvalidParameter {
    fn status(&self) -> Status {
        INVALID_INPUT
    }
}

/// A handler failed in a way that the client can do nothing about. The log has the reason.
#[derive(Debug, thiserror::Error)]
#[error("The sidecar failed unexpectedly")]
pub(super) struct InternalError;

impl RouteError for InternalError {
    fn status(&self) -> Status {
        (StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::InternalError)
    }
}
