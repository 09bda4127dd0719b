use serde::{Deserialize, Serialize};

/// Response body of `GET /healthz`. Any response means that the sidecar is up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Health {
    /// Always `ok`.
    pub status: String,
    /// The sidecar's version, such as `0.1.0`.
    pub version: String,
    /// The number of registered tools. The tools of an MCP server are included once Pillion has
    /// discovered them.
    pub tools: usize,
}
