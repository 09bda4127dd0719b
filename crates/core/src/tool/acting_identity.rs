use std::future::Future;
use std::pin::Pin;

use super::{Link, ToolFailure};

/// The return type of [`Tool::acting_identity`](super::Tool::acting_identity).
pub type ActingIdentityFuture =
    Pin<Box<dyn Future<Output = Result<ActingIdentity, ToolFailure>> + Send>>;

/// The identity and credential with which a tool acts for a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActingIdentity {
    /// The ID of the account that the tool uses. Does not change when the credential is renewed. An
    /// approval is valid only for the acting identity of the approved call, and the tool must not
    /// act under another identity.
    pub identity: String,
    /// A value that identifies the credential without containing it, and changes with the
    /// credential. A cached result is used only for calls with the same value.
    pub credential: String,
    /// The object with which the tool acts, such as a connection that was opened with the
    /// credential, so that the tool need not read the credential again when it runs. Opaque to the
    /// executor. `None` for a call that has waited for the decision of an approver, because the
    /// credential may have been removed during the wait.
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
