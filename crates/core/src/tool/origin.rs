/// Where a tool comes from. The capability filter (H2) and the registry (B4) keep MCP
/// tools apart from all others by it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ToolOrigin {
    /// Built in, or written by the application.
    #[default]
    Native,
    /// Offered by an MCP server.
    Mcp {
        /// The server's label in the configuration.
        server_label: String,
        /// The server's URL; empty when it has not been set, and then the tool is not
        /// offered to any model.
        server_url: String,
    },
}

impl ToolOrigin {
    /// Whether the tool comes from an MCP server.
    #[must_use]
    pub fn is_mcp(&self) -> bool {
        matches!(self, Self::Mcp { .. })
    }
}
