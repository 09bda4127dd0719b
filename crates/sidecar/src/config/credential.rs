use serde::{Deserialize, Serialize};

/// Which credential the calls to an MCP server use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialPolicy {
    /// The server's own credential, for all users.
    #[default]
    Shared,
    /// The credential of the user on whose behalf the call is made; without one the call fails.
    PerUser,
    /// The user's credential if there is one, else the server's own.
    UserOrShared,
}

impl CredentialPolicy {
    /// Returns whether calls may use the credentials of users.
    #[must_use]
    pub fn is_of_users(self) -> bool {
        self != Self::Shared
    }
}
