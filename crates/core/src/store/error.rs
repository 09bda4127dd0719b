use crate::tool::ErrorCode;

type ErrorSource = Box<dyn std::error::Error + Send + Sync>;

/// The kind of a [`StoreError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store cannot be reached or written to at present: a full disk, a file that another
    /// process keeps locked, an unreachable database server, too many waiting writes. The write may
    /// or may not be stored.
    Unavailable,
    /// The record does not exist.
    NotFound,
    /// The record already exists, or is no longer in the state that the change requires.
    Conflict,
    /// The maximum number of records is reached.
    Full,
    /// The request is invalid, for example because of an invalid cursor, or a text that the
    /// database cannot store.
    Invalid,
    /// The stored data cannot be read: a damaged file, a schema of a newer program, a secret that
    /// the key cannot decrypt.
    Corrupt,
}

/// An error of a store. The message contains no values of records.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    #[source]
    source: Option<ErrorSource>,
}

impl StoreError {
    /// Creates an error; `message` is a sentence for an operator.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// Creates an `unavailable` error.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Unavailable, message)
    }

    /// Creates a `not_found` error.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::NotFound, message)
    }

    /// Creates a `conflict` error.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Conflict, message)
    }

    /// Creates a `full` error.
    pub fn full(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Full, message)
    }

    /// Creates an `invalid` error.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Invalid, message)
    }

    /// Creates a `corrupt` error.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Corrupt, message)
    }

    /// Adds the underlying error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<ErrorSource>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Returns whether the store is unavailable at present, so that a later retry may succeed.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.kind == StoreErrorKind::Unavailable
    }

    /// Returns whether the operation failed because the record does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.kind == StoreErrorKind::NotFound
    }

    /// Returns whether the operation failed because of a conflict with another record or an earlier
    /// decision.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.kind == StoreErrorKind::Conflict
    }

    /// Returns whether the operation failed because the maximum number of records is reached.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.kind == StoreErrorKind::Full
    }

    /// Returns whether the operation failed because the stored data cannot be read.
    #[must_use]
    pub fn is_corrupt(&self) -> bool {
        self.kind == StoreErrorKind::Corrupt
    }

    /// Returns the error code for the caller.
    ///
    /// ```
    /// use pillion_core::{store::StoreError, tool::ErrorCode};
    /// let full = StoreError::unavailable("the disk is full");
    /// assert_eq!(full.code(), ErrorCode::Unavailable);
    /// ```
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self.kind {
            StoreErrorKind::Unavailable => ErrorCode::Unavailable,
            StoreErrorKind::NotFound => ErrorCode::NotFound,
            StoreErrorKind::Full => ErrorCode::Denied,
            StoreErrorKind::Conflict | StoreErrorKind::Invalid => ErrorCode::InvalidInput,
            StoreErrorKind::Corrupt => ErrorCode::InternalError,
        }
    }
}
