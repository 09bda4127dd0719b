use serde::{Deserialize, Serialize};

/// Which credential the calls to an MCP server use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialPolicy {
    /// Calls of all users use the server's own credential.
    #[default]
    Shared,
    /// Calls use the credential of the user on whose behalf they are made, and fail without one.
    PerUser,
    /// Calls use the user's credential if the user has one, else the server's own.
    UserOrShared,
}

impl CredentialPolicy {
    /// Returns whether calls may use the credentials of users.
    #[must_use]
    pub fn uses_user_credentials(self) -> bool {
        self != Self::Shared
    }
}
