//! The tools of a whole MCP server in a registry (requirements B4, F6).

use std::sync::Arc;

use pillion_core::mcp::McpTool;
use pillion_core::tool::Tool;
use serde_json::json;
use serde_json::value::RawValue;

use crate::log::log;
use crate::mcp::Server;
use crate::runtime;
use crate::settings::LogLevel;
use crate::zend::Failure;

/// A server and the tools it listed.
pub struct McpServer {
    server: Arc<Server>,
    prefix: String,
    listed: Vec<Box<RawValue>>,
}

impl McpServer {
    /// A server and its tools as it listed them. `prefix` goes before their names here.
    pub fn new(server: Arc<Server>, prefix: &str, listed: Vec<Box<RawValue>>) -> Self {
        Self {
            server,
            prefix: prefix.to_owned(),
            listed,
        }
    }

    /// The tools for the registry, on the connection of this process. One with an illegal
    /// name or definition is left out, with a line in the log (F6).
    ///
    /// # Errors
    /// When the process has no runtime.
    pub fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, Failure> {
        let client = runtime::mcp_client(&self.server)?;
        let mut tools: Vec<Arc<dyn Tool>> = Vec::with_capacity(self.listed.len());
        for listed in &self.listed {
            match McpTool::from_listed(client.clone(), &self.prefix, listed) {
                Ok(tool) => tools.push(Arc::new(tool)),
                Err(error) => log(
                    LogLevel::Warning,
                    "MCP tool left out",
                    || json!({"url": self.server.shown_url(), "error": error.to_string()}),
                ),
            }
        }
        Ok(tools)
    }
}
