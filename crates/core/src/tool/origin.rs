/// The origin of a tool, with which the registry and the capability filter distinguish MCP tools
/// from other tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ToolOrigin {
    /// A built-in tool, or a tool of the application.
    #[default]
    Native,
    /// A tool of an MCP server.
    Mcp {
        /// The server's label in the configuration.
        server_label: String,
        /// The server's URL. A tool of a server with an empty URL is not offered to any model.
        server_url: String,
    },
}

impl ToolOrigin {
    /// Returns whether the tool comes from an MCP server.
    #[must_use]
    pub fn is_mcp(&self) -> bool {
        matches!(self, Self::Mcp { .. })
    }

    /// Returns the label of the tool's MCP server.
    #[must_use]
    pub fn server_label(&self) -> Option<&str> {
        match self {
            Self::Mcp { server_label, .. } => Some(server_label),
            Self::Native => None,
        }
    }
}
