use serde::{Deserialize, Serialize};

/// The answer to [`route::STREAMS`](crate::route::STREAMS).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StreamList {
    /// Always true.
    pub success: bool,
    /// The streams, in the order of their packs.
    pub streams: Vec<StreamEntry>,
}

/// An event stream of a pack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StreamEntry {
    /// Its name, which stands at the end of its path.
    pub name: String,
    /// Its URI as a resource of the MCP server.
    pub uri: String,
    /// What it tells.
    pub description: String,
}
