use std::sync::Arc;

use pillion_core::mcp::{McpClient, McpTool};
use pillion_core::registry::ToolRegistry;
use pillion_core::tool::{Tool, ToolName, ToolOrigin};
use serde_json::value::RawValue;

/// A tool as its server described it.
pub(super) type RawTool = Box<RawValue>;

/// What one server offers, on its way into the registry.
pub(super) struct Offer<'a> {
    pub(super) label: &'a str,
    pub(super) tool_prefix: &'a str,
    pub(super) client: &'a McpClient,
}

impl Offer<'_> {
    /// Registers the tools, each under its prefixed name, and takes out those of `before`
    /// that are gone. One that cannot be registered is left out, with a warning (F6).
    /// Returns the names that are registered now.
    pub(super) fn register(
        &self,
        tools: &[RawTool],
        before: &[ToolName],
        registry: &ToolRegistry,
    ) -> Vec<ToolName> {
        let names: Vec<_> = tools
            .iter()
            .filter_map(|tool| self.register_one(tool, registry))
            .collect();
        for gone in before.iter().filter(|name| !names.contains(name)) {
            registry.unregister(gone.as_str());
        }
        names
    }

    fn register_one(&self, raw: &RawTool, registry: &ToolRegistry) -> Option<ToolName> {
        let label = self.label;
        let warn = |error: &dyn std::fmt::Display| {
            tracing::warn!(
                server.label = label, %error,
                "A tool of MCP server `{label}` is left out"
            );
        };
        let tool = match McpTool::from_listed(self.client.clone(), self.tool_prefix, raw) {
            Ok(tool) => Arc::new(tool),
            Err(error) => {
                warn(&error);
                return None;
            }
        };
        let name = tool.definition().name().clone();
        if let Some(owner) = self.owner_of(&name, registry) {
            warn(&format_args!("the name {name} belongs to {owner}"));
            return None;
        }
        match registry.replace(tool) {
            Ok(_) => Some(name),
            Err(error) => {
                warn(&error);
                None
            }
        }
    }

    /// Who else has a tool of that name.
    fn owner_of(&self, name: &ToolName, registry: &ToolRegistry) -> Option<String> {
        let holder = registry.get(name.as_str())?;
        if holder.definition().name() != name {
            return None; // Only an alias, and a tool's own name wins over those.
        }
        match holder.origin() {
            ToolOrigin::Mcp { server_label, .. } if server_label == self.label => None,
            ToolOrigin::Mcp { server_label, .. } => Some(format!("MCP server `{server_label}`")),
            _ => Some("a tool of this sidecar".to_owned()),
        }
    }
}
