use axum::http::StatusCode;
use pillion_core::store::StoreError;
use pillion_core::tool::ErrorCode;
use pillion_mcp_client::ServerConfigError;
use pillion_store::{MasterKeyError, VaultError};

use crate::credentials::CredentialError;
use crate::problem::status_of_store;

/// Why a server cannot be added, changed or shown. Error messages never contain a credential.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    /// A member of the server's configuration is invalid.
    #[error("{key}: {message}")]
    Invalid { key: String, message: String },
    /// The configuration as a whole is invalid.
    #[error(transparent)]
    Config(#[from] ServerConfigError),
    /// The message is part of the REST API.
    #[error("Server not found")]
    NotFound,
    #[error("There is a server named '{name}' already")]
    NameTaken { name: String },
    #[error("'{name}' is a server of the configuration file: change it there")]
    OfTheFile { name: String },
    #[error(
        "A server that is a program is added and changed by the operator alone: in the \
         configuration file, or with `pillion servers` as the sidecar's user"
    )]
    Program,
    #[error("'{key}' names a file here, which the operator alone may do")]
    LocalFile { key: &'static str },
    #[error(
        "The server is elsewhere now: give '{key}' again, since what is stored was meant for \
         the place before"
    )]
    MovedAway { key: &'static str },
    #[error(transparent)]
    Credential(#[from] CredentialError),
    #[error(
        "Calls of '{name}' go out with its own credential: set credential = \"per_user\" or \
         \"user_or_shared\" first"
    )]
    NotOfUsers { name: String },
    #[error("'{name}' is not in use: {why}")]
    NotInUse { name: String, why: String },
    #[error("This sidecar keeps no servers: it has no store")]
    NoStore,
    #[error("The vault's next key: {0}")]
    NextKey(#[source] MasterKeyError),
    #[error("The key of the vault is in no file: vault.key_file is not set")]
    NoKeyFile,
    #[error("what is stored of the server cannot be read")]
    Unreadable,
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("The change failed unexpectedly")]
    Panicked,
}

impl ServerError {
    pub(super) fn invalid(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid {
            key: key.into(),
            message: message.into(),
        }
    }

    /// Returns the HTTP status and the error code.
    pub(crate) fn translate(&self) -> (StatusCode, ErrorCode) {
        use ErrorCode::{Denied, InternalError, InvalidInput, NotFound, Unavailable};
        match self {
            Self::Invalid { .. } | Self::Config(_) | Self::MovedAway { .. } => {
                (StatusCode::BAD_REQUEST, InvalidInput)
            }
            Self::Credential(error) => error.translate(),
            Self::NotFound => (StatusCode::NOT_FOUND, NotFound),
            Self::NameTaken { .. } => (StatusCode::CONFLICT, InvalidInput),
            Self::NotOfUsers { .. } => (StatusCode::CONFLICT, InvalidInput),
            Self::NotInUse { .. } => (StatusCode::CONFLICT, Unavailable),
            Self::OfTheFile { .. } | Self::NextKey(_) | Self::NoKeyFile => {
                (StatusCode::CONFLICT, Denied)
            }
            Self::Program | Self::LocalFile { .. } => (StatusCode::FORBIDDEN, Denied),
            Self::NoStore => (StatusCode::SERVICE_UNAVAILABLE, Unavailable),
            Self::Store(error) => (status_of_store(error), error.code()),
            Self::Unreadable | Self::Panicked => (StatusCode::INTERNAL_SERVER_ERROR, InternalError),
        }
    }
}

impl From<VaultError> for ServerError {
    fn from(error: VaultError) -> Self {
        CredentialError::from(error).into()
    }
}
