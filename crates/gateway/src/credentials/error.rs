use axum::http::StatusCode;
use pillion_core::tool::ErrorCode;
use pillion_store::{MasterKeyError, VaultError};

use crate::problem::store_error_status;

/// Why a credential cannot be read or is rejected. Error messages never contain a credential.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// The credential's JSON has an invalid key or value.
    #[error("{key}: {message}")]
    Invalid {
        /// The invalid key of the request body, such as `authentication`.
        key: String,
        /// What is wrong with the key's value.
        message: String,
    },
    /// No key of the vault is configured.
    #[error(
        "Credentials are stored encrypted, and no key is configured: set vault.key_file (or \
         vault.key_env) in the configuration; `openssl rand -base64 32` generates a key"
    )]
    NoKey,
    /// The user has no credential for the server.
    #[error("This user has no credential for this server")]
    NoUserCredential,
    /// The key of the vault cannot be read.
    #[error("cannot read the key of the vault: {0}")]
    Key(#[from] MasterKeyError),
    /// A secret cannot be encrypted, decrypted or stored.
    #[error("cannot use the vault: {0}")]
    Vault(#[from] VaultError),
    /// The stored credential has no known format.
    #[error("the stored credential cannot be read: set the credential again")]
    Unreadable,
}

impl CredentialError {
    pub(super) fn invalid(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid {
            key: key.into(),
            message: message.into(),
        }
    }

    /// Returns the HTTP status and the error code.
    pub fn status_and_code(&self) -> (StatusCode, ErrorCode) {
        use ErrorCode::{Denied, InternalError, InvalidInput, NotFound};
        match self {
            Self::Invalid { .. } => (StatusCode::BAD_REQUEST, InvalidInput),
            Self::NoUserCredential => (StatusCode::NOT_FOUND, NotFound),
            Self::NoKey => (StatusCode::FORBIDDEN, Denied),
            Self::Vault(VaultError::Store(error)) => (store_error_status(error), error.code()),
            Self::Key(_) | Self::Vault(_) | Self::Unreadable => {
                (StatusCode::INTERNAL_SERVER_ERROR, InternalError)
            }
        }
    }
}
