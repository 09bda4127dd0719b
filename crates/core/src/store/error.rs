use crate::tool::ErrorCode;

/// What kind of failure a [`StoreError`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store cannot be reached or written to at present: a full disk, a file that another
    /// process keeps locked, a database server that is away, too many waiting writes. Nothing
    /// of what was asked for is promised to be stored.
    Unavailable,
    /// There is no such record.
    NotFound,
    /// There is already such a record, or the record is no longer in the state that the change
    /// was meant for.
    Conflict,
    /// There are as many as there may be.
    Full,
    /// What was asked for can never be: a cursor that is none of ours, a text that the database
    /// cannot keep.
    Invalid,
    /// What is stored cannot be read: a damaged file, a schema of a newer program, a secret
    /// that the key does not open.
    Corrupt,
}

/// Why a store failed. Its text names no value of a record.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl StoreError {
    /// An error of this kind; `message` is a sentence for an operator.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// `unavailable`.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Unavailable, message)
    }

    /// `not_found`.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::NotFound, message)
    }

    /// `conflict`.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Conflict, message)
    }

    /// `full`.
    pub fn full(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Full, message)
    }

    /// `invalid`.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Invalid, message)
    }

    /// `corrupt`.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Corrupt, message)
    }

    /// The same, with the error that it comes from.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether trying again later may help.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.kind == StoreErrorKind::Unavailable
    }

    /// Whether there is no such record.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.kind == StoreErrorKind::NotFound
    }

    /// Whether another record, or an earlier decision, is in the way.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.kind == StoreErrorKind::Conflict
    }

    /// Whether there are as many as there may be.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.kind == StoreErrorKind::Full
    }

    /// Whether what is stored cannot be read.
    #[must_use]
    pub fn is_corrupt(&self) -> bool {
        self.kind == StoreErrorKind::Corrupt
    }

    /// The code that a caller is told (requirement C5).
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
