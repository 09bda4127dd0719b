use std::future::Future;
use std::pin::Pin;

use super::{Link, ToolFailure};

/// The return type of [`Tool::acting_identity`](super::Tool::acting_identity).
pub type ActingIdentityFuture =
    Pin<Box<dyn Future<Output = Result<ActingIdentity, ToolFailure>> + Send>>;

/// The identity and credential with which a tool acts for a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActingIdentity {
    /// The acting identity; does not change when the credential is renewed. Approvals are bound to
    /// the identity, and the tool must not act under another identity.
    pub identity: String,
    /// Identifies the credential without containing it; changes with the credential. Cached results
    /// are bound to this value.
    pub credential: String,
    /// What the tool uses to act, such as a connection that has the credential, so that the tool
    /// need not read the credential again when it runs. Opaque to the executor. `None` for a call
    /// that waited for the decision of an approver: the credential may be gone by then.
    pub connection: Option<Link>,
}

impl ActingIdentity {
    /// Creates an identity and credential without a connection.
    #[must_use]
    pub fn new(identity: impl Into<String>, credential: impl Into<String>) -> Self {
        Self {
            identity: identity.into(),
            credential: credential.into(),
            connection: None,
        }
    }
}
