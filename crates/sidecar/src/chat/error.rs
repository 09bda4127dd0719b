use axum::http::StatusCode;
use pillion_chat::{ModelError, ModelErrorKind};
use pillion_core::store::{StoreError, StoreErrorKind};
use pillion_core::tool::ErrorCode;

use pillion_gateway::client_text::truncate_input;

pub(super) type Result<T, E = ChatRejection> = std::result::Result<T, E>;

/// The reason why a chat cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChatRejection {
    #[error(
        "No model is configured: add [[providers]] and [[models]] (docs/how-to/providers-and-models.md)"
    )]
    NoModel,
    #[error("There is no model '{}'", truncate_input(id))]
    UnknownModel { id: String },
    #[error(
        "There is no chat '{}': the chat has expired, belongs to another user, or never existed",
        truncate_input(id)
    )]
    UnknownChat { id: String },
    #[error(
        "Cannot read the stored chat '{}': an incompatible version of Pillion stored the chat",
        truncate_input(id)
    )]
    Unreadable { id: String },
    #[error("Another request is continuing the chat '{}'", truncate_input(id))]
    Busy { id: String },
    #[error("This sidecar has no store for chats")]
    NoStore,
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("{0}")]
    Model(#[from] ModelError),
}

impl ChatRejection {
    /// Returns the code of the error in OpenAI-compatible APIs, if there is one.
    pub(crate) fn openai_code(&self) -> Option<&'static str> {
        match self {
            Self::UnknownModel { .. } => Some("model_not_found"),
            Self::Busy { .. } => Some("chat_busy"),
            _ => None,
        }
    }

    /// Returns the HTTP status and the error code.
    pub(crate) fn status_and_code(&self) -> (StatusCode, ErrorCode) {
        match self {
            Self::UnknownModel { .. } | Self::UnknownChat { .. } => {
                (StatusCode::NOT_FOUND, ErrorCode::NotFound)
            }
            Self::Busy { .. } => (StatusCode::CONFLICT, ErrorCode::InvalidInput),
            Self::NoModel | Self::NoStore => {
                (StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable)
            }
            Self::Unreadable { .. } => {
                (StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::InternalError)
            }
            Self::Store(error) => {
                let status = match error.kind() {
                    StoreErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
                    StoreErrorKind::Conflict => StatusCode::CONFLICT,
                    _ => StatusCode::INTERNAL_SERVER_ERROR,
                };
                (status, error.code())
            }
            Self::Model(error) => (map_status(error.kind), error.code()),
        }
    }
}

/// Returns the HTTP status for an error of a model's provider.
pub(crate) fn map_status(kind: ModelErrorKind) -> StatusCode {
    match kind {
        ModelErrorKind::Rejected | ModelErrorKind::ContextTooLong => StatusCode::BAD_REQUEST,
        ModelErrorKind::RateLimited | ModelErrorKind::Exhausted => StatusCode::TOO_MANY_REQUESTS,
        ModelErrorKind::Timeout => StatusCode::GATEWAY_TIMEOUT,
        ModelErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        // An invalid API key of the sidecar is returned as status 502, because 401 would mean that
        // the caller's own token is wrong.
        _ => StatusCode::BAD_GATEWAY,
    }
}
