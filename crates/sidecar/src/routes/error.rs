use axum::extract::rejection::BytesRejection;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use pillion_core::store::{StoreError, StoreErrorKind};
use pillion_core::tool::ErrorCode;

use crate::echo::shortened;
use crate::problem::Problem;
use crate::servers::ServerError;

/// Why a request was refused before any tool ran.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("Malformed JSON: {0}")]
    MalformedJson(#[source] serde_json::Error),
    #[error("The body must be a JSON object with the tool's arguments")]
    NotAnObject,
    #[error("The body is no batch: {0}")]
    NotABatch(#[source] serde_json::Error),
    #[error("The batch has {calls} calls; the limit is {limit}")]
    BatchTooLong { calls: usize, limit: usize },
    #[error("The body is longer than {limit_bytes} bytes")]
    BodyTooLong { limit_bytes: usize },
    #[error("The body did not arrive within {:.1}s", after.as_secs_f64())]
    BodyTooSlow { after: std::time::Duration },
    #[error("The body broke off")]
    BodyBroken(#[source] BytesRejection),
    #[error("The header {header} must be UTF-8 of at most {limit_bytes} bytes")]
    BadHeader {
        header: &'static str,
        limit_bytes: usize,
    },
    #[error("The tool's name in the path is not valid UTF-8")]
    BadToolName,
    #[error("The query string is malformed")]
    BadQuery,
    #[error("The parameter '{name}' is not what it can be")]
    BadParameter { name: &'static str },
    #[error("There is no recorded call with this id")]
    UnknownCall,
    #[error("This sidecar keeps no record of calls")]
    NoStore,
    #[error("{0}")]
    Store(#[source] StoreError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("There is no route {}", shortened(path))]
    UnknownRoute { path: String },
    #[error("The method {method} is not allowed here")]
    WrongMethod { method: Method },
    #[error("The sidecar failed unexpectedly")]
    Panicked,
}

impl RequestError {
    fn translate(&self) -> (StatusCode, ErrorCode) {
        use ErrorCode::{InternalError, InvalidInput, NotFound, Timeout, Unavailable};
        match self {
            Self::MalformedJson(_)
            | Self::NotAnObject
            | Self::NotABatch(_)
            | Self::BatchTooLong { .. }
            | Self::BodyBroken(_)
            | Self::BadHeader { .. }
            | Self::BadToolName
            | Self::BadQuery
            | Self::BadParameter { .. } => (StatusCode::BAD_REQUEST, InvalidInput),
            Self::BodyTooLong { .. } => (StatusCode::PAYLOAD_TOO_LARGE, InvalidInput),
            Self::BodyTooSlow { .. } => (StatusCode::REQUEST_TIMEOUT, Timeout),
            Self::Server(error) => error.translate(),
            Self::Store(error) => (status_of(error), error.code()),
            Self::NoStore => (StatusCode::SERVICE_UNAVAILABLE, Unavailable),
            Self::UnknownRoute { .. } | Self::UnknownCall => (StatusCode::NOT_FOUND, NotFound),
            Self::WrongMethod { .. } => (StatusCode::METHOD_NOT_ALLOWED, InvalidInput),
            Self::Panicked => (StatusCode::INTERNAL_SERVER_ERROR, InternalError),
        }
    }
}

fn status_of(error: &StoreError) -> StatusCode {
    match error.kind() {
        StoreErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        StoreErrorKind::NotFound => StatusCode::NOT_FOUND,
        StoreErrorKind::Conflict => StatusCode::CONFLICT,
        StoreErrorKind::Invalid => StatusCode::BAD_REQUEST,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for RequestError {
    fn into_response(self) -> Response {
        let (status, code) = self.translate();
        Problem::new(status, code, self.to_string()).into_response()
    }
}
