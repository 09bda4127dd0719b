use serde::{Deserialize, Serialize};

/// Whose credential the calls of an MCP server go out with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialPolicy {
    /// The server's own, for everybody.
    #[default]
    Shared,
    /// That of the user on whose behalf the call is made; without one there is no call.
    PerUser,
    /// The user's where there is one, else the server's own.
    UserOrShared,
}

impl CredentialPolicy {
    /// Whether calls may go out with the credentials of users.
    #[must_use]
    pub fn is_of_users(self) -> bool {
        self != Self::Shared
    }
}
