use serde::{Deserialize, Serialize};

/// The answer of `GET /healthz`. That there is an answer means the sidecar is up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// The sidecar's version, such as `0.1.0`.
    pub version: String,
    /// How many tools are registered now; those of MCP servers count once discovered.
    pub tools: usize,
}
