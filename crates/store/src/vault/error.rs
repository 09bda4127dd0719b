use pillion_core::store::{SecretKind, StoreError};
use pillion_core::tool::ErrorCode;

/// Why a secret cannot be stored or read. The message contains no secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VaultError {
    /// The store is encrypted with a key other than the configured key.
    #[error(
        "the store is encrypted with another key: the store has the key id {stored_id}, the \
        configured key has {configured_id}"
    )]
    WrongKey {
        /// The ID of the key with which the store is encrypted.
        stored_id: String,
        /// The ID of the configured key.
        configured_id: String,
    },
    /// The store has secrets, but no check value that verifies their key.
    #[error("the store has secrets, but not the value that verifies their key")]
    MissingCheckValue,
    /// The stored secret was modified or moved, or was encrypted with another key.
    #[error("a stored secret of the kind {} is damaged or was moved from another entry", kind.as_str())]
    Damaged {
        /// The kind of the damaged secret.
        kind: SecretKind,
    },
    /// A secret is too large to be encrypted: 256 GiB or more.
    #[error("the secret cannot be encrypted: a secret must be smaller than 256 GiB")]
    SecretTooLarge,
    /// The store of the encrypted secrets cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl VaultError {
    /// Returns the error code for API responses.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::WrongKey { .. }
            | Self::MissingCheckValue
            | Self::Damaged { .. }
            | Self::SecretTooLarge => ErrorCode::InternalError,
            Self::Store(error) => error.code(),
        }
    }
}
