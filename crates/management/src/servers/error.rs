use axum::http::StatusCode;
use pillion_core::store::StoreError;
use pillion_core::tool::ErrorCode;
use pillion_mcp_client::ServerConfigError;
use pillion_store::{MasterKeyError, VaultError};

use crate::registry::InstallError;
use pillion_gateway::access::OtherUser;
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::credentials::CredentialError;
use pillion_gateway::problem::store_error_status;

pub(super) type Result<T, E = ServerError> = std::result::Result<T, E>;

/// The reason why a server cannot be added, changed or shown. Error messages never contain a
/// credential.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A member of the server's configuration is invalid.
    #[error("{key}: {message}")]
    Invalid {
        /// The key of the invalid member.
        key: String,
        /// The problem with the value of the key.
        message: String,
    },
    /// The configuration as a whole is invalid.
    #[error(transparent)]
    Config(#[from] ServerConfigError),
    /// No server has the requested ID or name.
    #[error("Server not found: '{}'", truncate_input(key))]
    NotFound {
        /// The requested ID or name.
        key: String,
    },
    /// Another server has this name.
    #[error("A server named '{name}' already exists")]
    NameTaken {
        /// The name of the server.
        name: String,
    },
    /// The server is defined in the configuration file, so it cannot be changed through the REST
    /// API.
    #[error("Server '{name}' is defined in the configuration file: change the server in the file")]
    DefinedInFile {
        /// The name of the server.
        name: String,
    },
    /// The request sets a command, which only the operator may do.
    #[error(
        "Only the operator can add or change a server with a command: in the configuration file, \
         or with `pillion servers` as the sidecar's user"
    )]
    Program,
    /// The request names a local file, which only the operator may do.
    #[error(
        "'{key}' names a file on the sidecar's host: only the operator can set this key, in the \
         configuration file"
    )]
    LocalFile {
        /// The configuration key that contains the path of the file.
        key: &'static str,
    },
    /// The server's address has changed, and the stored credential is not sent to another address.
    #[error(
        "The server's address has changed: send '{key}' again, because the stored value belongs to \
         the previous address"
    )]
    MovedAway {
        /// The key of the credential in the request body.
        key: &'static str,
    },
    /// The credential is invalid or cannot be stored.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// The server does not use credentials of users.
    #[error(
        "Server '{name}' does not use credentials of users: set credential = \"per_user\" or \
         \"user_or_shared\" first"
    )]
    NotOfUsers {
        /// The name of the server.
        name: String,
    },
    /// The caller may not manage the credentials of this user.
    #[error(transparent)]
    OtherUser(#[from] OtherUser),
    /// The server does not need the consent of a user in a browser.
    #[error(
        "Server '{name}' does not use OAuth with a user's consent: set its authentication to oauth \
         with the grant authorization_code"
    )]
    NoConsent {
        /// The name of the server.
        name: String,
    },
    /// The server accepts requests without a token, so there is nothing to log in to.
    #[error("Server '{name}' requires no authorization: it lists its tools without a token")]
    NoLoginNeeded {
        /// The name of the server.
        name: String,
    },
    /// The authorization server cannot be used, or has denied the authorization.
    #[error("The login at the authorization server of '{name}' failed: {reason}")]
    LoginFailed {
        /// The name of the server.
        name: String,
        /// What failed.
        reason: String,
    },
    /// The response of an authorization server belongs to no login of the session.
    #[error(
        "This login has expired, is complete, or was started in another browser session: log in \
         again"
    )]
    UnknownLogin,
    /// The server is disabled or could not be started.
    #[error("Server '{name}' is not in use: {reason}")]
    NotInUse {
        /// The name of the server.
        name: String,
        /// The reason why the server is not in use.
        reason: String,
    },
    /// Too many diagnoses are running.
    #[error("Too many diagnoses are running: try again in a few seconds")]
    TooManyDiagnoses,
    /// There is no store for servers.
    #[error("This sidecar has no store for MCP servers")]
    NoStore,
    /// The next key of the vault cannot be read.
    #[error(
        "Cannot read the new key of the vault, which an interrupted rotation may have left: {0}. \
         If the file has never contained a key, remove the file and rotate again"
    )]
    NextKey(#[source] MasterKeyError),
    /// The key of the vault is not in a file.
    #[error("The vault's key can only be rotated in a file: vault.key_file is not set")]
    NoKeyFile,
    /// The stored settings have no known format.
    #[error("the stored settings of the server cannot be read")]
    Unreadable,
    /// The server of the registry cannot be installed.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The store failed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The task that changed the server panicked.
    #[error("The change of the server failed unexpectedly: the sidecar's log has the reason")]
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
    pub fn status_and_code(&self) -> (StatusCode, ErrorCode) {
        use ErrorCode::{Denied, InternalError, InvalidInput, NotFound, RateLimited, Unavailable};
        match self {
            Self::Invalid { .. } | Self::Config(_) | Self::MovedAway { .. } => {
                (StatusCode::BAD_REQUEST, InvalidInput)
            }
            Self::Credential(error) => error.status_and_code(),
            Self::NotFound { .. } | Self::UnknownLogin => (StatusCode::NOT_FOUND, NotFound),
            Self::NameTaken { .. } => (StatusCode::CONFLICT, InvalidInput),
            Self::NotOfUsers { .. } | Self::NoConsent { .. } | Self::NoLoginNeeded { .. } => {
                (StatusCode::CONFLICT, InvalidInput)
            }
            Self::LoginFailed { .. } => (StatusCode::BAD_GATEWAY, Unavailable),
            Self::NotInUse { .. } => (StatusCode::CONFLICT, Unavailable),
            Self::DefinedInFile { .. } | Self::NextKey(_) | Self::NoKeyFile => {
                (StatusCode::CONFLICT, Denied)
            }
            Self::Install(error) => match error {
                InstallError::Disabled => (StatusCode::SERVICE_UNAVAILABLE, Unavailable),
                InstallError::UnknownMethod => (StatusCode::NOT_FOUND, NotFound),
                InstallError::RunnerNotAllowed { .. } | InstallError::Deleted => {
                    (StatusCode::FORBIDDEN, Denied)
                }
                InstallError::Changed => (StatusCode::CONFLICT, InvalidInput),
                InstallError::Unsupported(_)
                | InstallError::Url(_)
                | InstallError::Value { .. } => (StatusCode::BAD_REQUEST, InvalidInput),
            },
            Self::Program | Self::LocalFile { .. } | Self::OtherUser(_) => {
                (StatusCode::FORBIDDEN, Denied)
            }
            Self::TooManyDiagnoses => (StatusCode::TOO_MANY_REQUESTS, RateLimited),
            Self::NoStore => (StatusCode::SERVICE_UNAVAILABLE, Unavailable),
            Self::Store(error) => (store_error_status(error), error.code()),
            Self::Unreadable | Self::Panicked => (StatusCode::INTERNAL_SERVER_ERROR, InternalError),
        }
    }
}

impl From<VaultError> for ServerError {
    fn from(error: VaultError) -> Self {
        CredentialError::from(error).into()
    }
}
