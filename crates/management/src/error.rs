//! The errors of requests. Each group of requests declares its own error with [`route_error!`],
//! which has the status beside each message.

use std::fmt::{self, Display};

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use pillion_core::tool::ErrorCode::{
    self, Denied, InvalidInput, NotFound, RateLimited, Unavailable,
};
use pillion_gateway::access::{AccessGrant, Scope};
use pillion_gateway::problem::Problem;

/// The result of a handler.
pub type Result<T, E = RequestError> = std::result::Result<T, E>;

/// The HTTP status and the error code with which an error is returned.
#[derive(Debug, Clone, Copy)]
pub struct Status {
    http: StatusCode,
    code: ErrorCode,
    /// Whether the response has `Retry-After: 1`, because the same request can succeed later.
    is_temporary: bool,
}

/// 400, `invalid_input`.
pub const INVALID_INPUT: Status = Status::new(StatusCode::BAD_REQUEST, InvalidInput);
/// 403, `denied`.
pub const DENIED: Status = Status::new(StatusCode::FORBIDDEN, Denied);
/// 404, `not_found`.
pub const NOT_FOUND: Status = Status::new(StatusCode::NOT_FOUND, NotFound);
/// 405, `invalid_input`.
pub const METHOD_NOT_ALLOWED: Status = Status::new(StatusCode::METHOD_NOT_ALLOWED, InvalidInput);
/// 408, `timeout`.
pub const TIMEOUT: Status = Status::new(StatusCode::REQUEST_TIMEOUT, ErrorCode::Timeout);
/// 409, `invalid_input`.
pub const CONFLICT: Status = Status::new(StatusCode::CONFLICT, InvalidInput);
/// 409, `unavailable`: the same request can succeed later.
pub const IN_PROGRESS: Status = Status::new_temporary(StatusCode::CONFLICT, Unavailable);
/// 413, `invalid_input`.
pub const TOO_LARGE: Status = Status::new(StatusCode::PAYLOAD_TOO_LARGE, InvalidInput);
/// 422, `invalid_input`.
pub const UNPROCESSABLE: Status = Status::new(StatusCode::UNPROCESSABLE_ENTITY, InvalidInput);
/// 426, `invalid_input`.
pub const UPGRADE_REQUIRED: Status = Status::new(StatusCode::UPGRADE_REQUIRED, InvalidInput);
/// 429, `rate_limited`: the same request can succeed later.
pub const RATE_LIMITED: Status = Status::new_temporary(StatusCode::TOO_MANY_REQUESTS, RateLimited);
const INTERNAL_ERROR: Status =
    Status::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::InternalError);
/// 503, `unavailable`.
pub const UNAVAILABLE: Status = Status::new(StatusCode::SERVICE_UNAVAILABLE, Unavailable);

impl Status {
    const fn new(http: StatusCode, code: ErrorCode) -> Self {
        Self {
            http,
            code,
            is_temporary: false,
        }
    }

    const fn new_temporary(http: StatusCode, code: ErrorCode) -> Self {
        Self {
            is_temporary: true,
            ..Self::new(http, code)
        }
    }

    /// Returns the problem details (RFC 9457) for an error with this status.
    pub fn problem(self, message: String) -> Problem {
        Problem::new(self.http, self.code, message)
    }
}

impl From<(StatusCode, ErrorCode)> for Status {
    fn from((http, code): (StatusCode, ErrorCode)) -> Self {
        Self::new(http, code)
    }
}

/// The error of a group of routes. `?` converts the error to a [`RequestError`].
pub trait RouteError: Display {
    /// Returns the status and the error code.
    fn status(&self) -> Status;

    /// Returns the problem details (RFC 9457) of the error.
    fn problem(&self) -> Problem {
        self.status().problem(self.to_string())
    }
}

/// Declares an error enum or struct. Each variant, or the struct itself, has a [`Status`] after
/// `=>`. The caller derives `thiserror::Error`: if this macro derived it, the arguments of the
/// messages could not see the macro's local variables.
#[macro_export]
macro_rules! route_error {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $name:ident {
            $(
                $(#[$variant_meta:meta])*
                $variant:ident $(($($tuple:tt)*))? $({$($fields:tt)*})? => $status:expr,
            )+
        }
    ) => {
        $(#[$meta])*
        $visibility enum $name {
            $($(#[$variant_meta])* $variant $(($($tuple)*))? $({$($fields)*})?,)+
        }

        impl $crate::error::RouteError for $name {
            fn status(&self) -> $crate::error::Status {
                match self {
                    $(Self::$variant { .. } => $status,)+
                }
            }
        }
    };
    (
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident $(($($tuple:tt)*))? => $status:expr
    ) => {
        $(#[$meta])*
        $visibility struct $name $(($($tuple)*))?;

        impl $crate::error::RouteError for $name {
            fn status(&self) -> $crate::error::Status {
                $status
            }
        }
    };
}
pub use crate::route_error;

/// The response to a request that was rejected before a tool ran. Created from a [`RouteError`].
#[derive(Debug)]
pub struct RequestError {
    problem: Box<Problem>,
    is_temporary: bool,
}

impl RequestError {
    /// Returns the error for a parameter with an invalid value; `expected` describes valid values.
    pub fn invalid_parameter(name: &'static str, expected: impl Into<String>) -> Self {
        InvalidParameter(name, expected.into()).into()
    }

    /// Returns the error for a parameter whose value is none of `words`.
    pub fn not_one_of(name: &'static str, words: impl IntoIterator<Item = &'static str>) -> Self {
        let words: Vec<_> = words.into_iter().collect();
        Self::invalid_parameter(name, format!("one of {}", words.join(", ")))
    }
}

impl RequestError {
    /// Returns the HTTP status of the response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.problem.http_status()
    }
}

impl Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.problem.message())
    }
}

impl<E: RouteError> From<E> for RequestError {
    fn from(error: E) -> Self {
        Self {
            problem: Box::new(error.problem()),
            is_temporary: error.status().is_temporary,
        }
    }
}

impl IntoResponse for RequestError {
    fn into_response(self) -> Response {
        let mut response = self.problem.into_response();
        if self.is_temporary {
            let one_second = HeaderValue::from_static("1");
            response.headers_mut().insert(RETRY_AFTER, one_second);
        }
        response
    }
}

route_error! {
    /// A member of the query or the body, or a header, does not have the expected value.
    #[derive(Debug, thiserror::Error)]
    #[error("The parameter '{0}' must be {1}")]
    struct InvalidParameter(&'static str, String) => INVALID_INPUT
}

route_error! {
    /// The permission of the client does not include a scope.
    #[derive(Debug, thiserror::Error)]
    #[error("This request needs the scope '{0}'")]
    pub struct MissingScope(Scope) => DENIED
}

/// Checks that `grant` includes `scope`.
///
/// # Errors
/// The grant does not include the scope.
pub fn require_scope(grant: &AccessGrant, scope: Scope) -> Result<(), MissingScope> {
    if grant.allows(scope) {
        Ok(())
    } else {
        Err(MissingScope(scope))
    }
}

route_error! {
    /// A handler failed in a way that the client can do nothing about. The log has the reason.
    #[derive(Debug, thiserror::Error)]
    #[error("The sidecar failed unexpectedly: see its log")]
    pub struct InternalError => INTERNAL_ERROR
}
