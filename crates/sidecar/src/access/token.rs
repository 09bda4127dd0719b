use std::fmt;
use std::pin::Pin;

use super::Grant;

/// What a [`TokenCheck`] answers.
pub type CheckFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Option<Grant>, TokenCheckError>> + Send + 'a>>;

/// Knows the tokens that let requests over TCP in.
///
/// An implementation keeps hashes, compares them in constant time, and never logs a token.
pub trait TokenCheck: Send + Sync + fmt::Debug + 'static {
    /// What the token allows; none for one that is not known, or not any more.
    ///
    /// # Errors
    /// [`TokenCheckError`] when that cannot be found out now.
    fn check<'a>(&'a self, token: &'a str) -> CheckFuture<'a>;
}

/// Whether a token is good cannot be found out now.
#[derive(Debug, thiserror::Error)]
#[error("cannot check access tokens now: {0}")]
pub struct TokenCheckError(#[source] pub Box<dyn std::error::Error + Send + Sync>);
