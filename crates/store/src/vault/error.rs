use pillion_core::store::{SecretKind, StoreError};
use pillion_core::tool::ErrorCode;

/// Why a secret cannot be kept or read. The text holds no secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VaultError {
    /// The store belongs to another key.
    #[error("the store is encrypted with another key: it has {stored}, and this one is {given}")]
    WrongKey {
        /// The id of the key that the store has.
        stored: String,
        /// The id of the key that was given.
        given: String,
    },
    /// The store has secrets, and nothing that says which key they have.
    #[error("the store has secrets without the value that their key is checked with")]
    NoCheck,
    /// What is stored was not stored there, or not with this key.
    #[error("a stored secret ({kind:?}) is damaged, or was moved from another place")]
    Damaged {
        /// What it was for.
        kind: SecretKind,
    },
    /// A secret is too large to be encrypted: 256 GiB and more.
    #[error("the secret cannot be encrypted")]
    Unsealable,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl VaultError {
    /// The code that a caller is told (requirement C5).
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::WrongKey { .. } | Self::NoCheck | Self::Damaged { .. } | Self::Unsealable => {
                ErrorCode::InternalError
            }
            Self::Store(error) => error.code(),
        }
    }
}
