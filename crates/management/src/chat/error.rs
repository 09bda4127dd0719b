use axum::http::StatusCode;
use pillion_chat::{ModelError, ModelErrorKind};
use pillion_core::store::{StoreError, StoreErrorKind};
use pillion_core::tool::ErrorCode;
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::problem::Problem;

use crate::error::{RouteError, Status};

pub(super) type Result<T, E = ChatRejection> = std::result::Result<T, E>;

/// The reason why a chat cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum ChatRejection {
    /// The configuration has no model with a provider.
    #[error(
        "No model is configured: add [[providers]] and [[models]] (docs/how-to/providers-and-models.md)"
    )]
    NoModel,
    /// No configured model has the ID.
    #[error("There is no model '{}'", truncate_input(id))]
    UnknownModel {
        /// The requested ID.
        id: String,
    },
    /// The caller has no chat with the ID.
    #[error(
        "There is no chat '{}': the chat has expired, belongs to another user, or never existed",
        truncate_input(id)
    )]
    UnknownChat {
        /// The requested ID.
        id: String,
    },
    /// The stored chat has an unknown format.
    #[error(
        "Cannot read the stored chat '{}': an incompatible version of Pillion stored the chat",
        truncate_input(id)
    )]
    Unreadable {
        /// The ID of the chat.
        id: String,
    },
    /// Another request is continuing the chat.
    #[error("Another request is continuing the chat '{}'", truncate_input(id))]
    Busy {
        /// The ID of the chat.
        id: String,
    },
    /// The sidecar has no store.
    #[error("This sidecar has no store for chats")]
    NoStore,
    /// The principal has too many requests that continue without their clients.
    #[error(
        "Too many of your requests are running in the background: wait until one of them has \
         ended, or raise http.max_detached and http.max_detached_bytes"
    )]
    TooManyInBackground,
    /// The task that runs the chat has ended unexpectedly.
    #[error("The chat ended unexpectedly: see the log of the sidecar")]
    Aborted,
    /// The store failed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The model is misconfigured, or cannot accept the messages.
    #[error("{0}")]
    Model(#[from] ModelError),
}

impl ChatRejection {
    /// Returns the code of the error in OpenAI-compatible APIs, if there is one.
    #[must_use]
    pub fn openai_code(&self) -> Option<&'static str> {
        match self {
            Self::UnknownModel { .. } => Some("model_not_found"),
            Self::Busy { .. } => Some("chat_busy"),
            _ => None,
        }
    }

    /// Returns the HTTP status and the error code.
    #[must_use]
    pub fn status_and_code(&self) -> (StatusCode, ErrorCode) {
        match self {
            Self::UnknownModel { .. } | Self::UnknownChat { .. } => {
                (StatusCode::NOT_FOUND, ErrorCode::NotFound)
            }
            Self::Busy { .. } => (StatusCode::CONFLICT, ErrorCode::InvalidInput),
            Self::NoModel | Self::NoStore => {
                (StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable)
            }
            Self::TooManyInBackground => (StatusCode::TOO_MANY_REQUESTS, ErrorCode::RateLimited),
            Self::Unreadable { .. } | Self::Aborted => {
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

impl RouteError for ChatRejection {
    fn status(&self) -> Status {
        self.status_and_code().into()
    }

    fn problem(&self) -> Problem {
        let problem = self.status().problem(self.to_string());
        match self.openai_code() {
            Some(code) => problem.with_openai_code(code),
            None => problem,
        }
    }
}

/// Returns the HTTP status for an error of a model's provider.
pub(super) fn map_status(kind: ModelErrorKind) -> StatusCode {
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
