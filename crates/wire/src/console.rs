use serde::{Deserialize, Serialize};

/// The body of a request for a sign-in link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ConsoleLinkRequest {
    /// The name of the person who signs in, which is recorded with decisions on approvals.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 256))]
    pub user: Option<String>,
}

/// A link that signs a browser in to the console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ConsoleLink {
    /// Always `true`.
    pub success: bool,
    /// The path of the link at the sidecar, with a code that can be used once.
    pub path: String,
    /// Time for which the link is valid, in seconds.
    pub expires_in: u64,
}
