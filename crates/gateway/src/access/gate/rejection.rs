use axum::http::header::{CONNECTION, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use pillion_core::tool::ErrorCode;

use crate::access::{Scope, TokenCheckError};
use crate::problem::Problem;

/// Why a request over TCP is rejected. Never contains a token.
#[derive(Debug, thiserror::Error)]
pub enum AccessRejection {
    /// The server has no TCP listener in the current configuration.
    #[error("This sidecar does not accept requests over TCP")]
    TcpDisabled,
    /// `Host` is missing, duplicated or not allowed.
    #[error("The Host header is missing or not allowed: add the host to tcp.allowed_hosts")]
    BadHost,
    /// The request comes from a web page whose origin is not allowed.
    #[error("Requests from this origin are not allowed: add the origin to tcp.allowed_origins")]
    BadOrigin,
    /// The request has no token.
    #[error("The request has no access token: send the header Authorization: Bearer TOKEN")]
    NoToken,
    /// The token is malformed, unknown, expired or revoked.
    #[error("The access token is invalid, expired or revoked")]
    BadToken,
    /// The token is valid, but its scope is insufficient.
    #[error("The access token does not allow this request: it needs the scope {required_scope}")]
    Scope {
        /// The scope that the route requires.
        required_scope: Scope,
    },
    /// The token is valid, but no permit is free for its connection.
    #[error("All tcp.max_connections connections are in use; try again later")]
    NoFreePermit,
    /// The tokens cannot be checked at present.
    #[error("Access tokens cannot be checked at present: try again later")]
    CannotCheck(#[source] TokenCheckError),
}

impl AccessRejection {
    fn status_and_code(&self) -> (StatusCode, ErrorCode) {
        match self {
            Self::TcpDisabled | Self::BadHost | Self::BadOrigin | Self::Scope { .. } => {
                (StatusCode::FORBIDDEN, ErrorCode::Denied)
            }
            Self::NoToken | Self::BadToken => (StatusCode::UNAUTHORIZED, ErrorCode::Denied),
            Self::NoFreePermit | Self::CannotCheck(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable)
            }
        }
    }

    /// Returns the value of `WWW-Authenticate` (RFC 6750, section 3).
    fn challenge(&self) -> Option<String> {
        match self {
            Self::NoToken => Some("Bearer realm=\"pillion\"".to_owned()),
            Self::BadToken => Some("Bearer realm=\"pillion\", error=\"invalid_token\"".to_owned()),
            Self::Scope { required_scope } => Some(format!(
                "Bearer realm=\"pillion\", error=\"insufficient_scope\", scope=\"{required_scope}\""
            )),
            Self::TcpDisabled
            | Self::BadHost
            | Self::BadOrigin
            | Self::NoFreePermit
            | Self::CannotCheck(_) => None,
        }
    }

    /// Returns whether the connection is closed after the rejection, which is the case if the
    /// request has not authenticated.
    fn closes_connection(&self) -> bool {
        match self {
            Self::TcpDisabled
            | Self::BadHost
            | Self::BadOrigin
            | Self::NoToken
            | Self::BadToken
            | Self::NoFreePermit => true,
            Self::Scope { .. } | Self::CannotCheck(_) => false,
        }
    }
}

impl IntoResponse for AccessRejection {
    fn into_response(self) -> Response {
        let (status, code) = self.status_and_code();
        if let Self::CannotCheck(error) = &self {
            tracing::error!(
                %error,
                "Rejected a request over TCP: its access token cannot be checked"
            );
        }
        let mut problem = Problem::new(status, code, self.to_string());
        if matches!(self, Self::NoToken | Self::BadToken) {
            problem = problem.with_openai_code("invalid_api_key");
        }
        let closes_connection = self.closes_connection();
        let mut response = problem.into_response();
        if closes_connection {
            let close_value = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close_value);
        }
        if let Some(Ok(challenge)) = self.challenge().map(TryInto::try_into) {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}
