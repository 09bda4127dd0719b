use std::fmt;
use std::pin::Pin;

use super::AccessGrant;

/// The future of [`TokenCheck::check`], whose output is the grant of a valid token.
pub type CheckFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Option<AccessGrant>, TokenCheckError>> + Send + 'a>>;

/// Checks the tokens of requests over TCP.
///
/// An implementation stores only hashes, compares them in constant time, and never logs a token.
pub trait TokenCheck: Send + Sync + fmt::Debug + 'static {
    /// Returns what the token allows, or `None` for an unknown, expired or revoked token.
    ///
    /// # Errors
    /// [`TokenCheckError`] if the tokens cannot be checked at present.
    fn check<'a>(&'a self, token: &'a str) -> CheckFuture<'a>;
}

/// The tokens cannot be checked at present.
#[derive(Debug, thiserror::Error)]
#[error("cannot check access tokens now: {0}")]
pub struct TokenCheckError(#[source] pub Box<dyn std::error::Error + Send + Sync>);
