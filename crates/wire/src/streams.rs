use serde::{Deserialize, Serialize};

/// Response body of `GET` [`route::LIST_STREAMS`](crate::route::LIST_STREAMS).
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
    /// The stream's name, which is also the last segment of the stream's path.
    pub name: String,
    /// The stream's URI as a resource of the MCP endpoint.
    pub uri: String,
    /// A description of the events in the stream.
    pub description: String,
}
