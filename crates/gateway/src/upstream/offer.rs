use std::collections::HashSet;
use std::sync::Arc;

use pillion_core::registry::{RegisteredTool, ToolRegistry};
use pillion_core::tool::{Tool, ToolName, ToolOrigin};
use pillion_mcp_client::EntryKind;
use serde_json::value::RawValue;

use super::Server;
use super::tool::UpstreamTool;

/// A tool as its server described it.
pub(super) type RawTool = Box<RawValue>;

/// The tools of one server, to be registered.
pub(super) struct ListedTools<'a> {
    pub(super) server: &'a Arc<Server>,
}

impl ListedTools<'_> {
    /// Registers all tools that are not blocked, each under its prefixed name, and unregisters the
    /// tools in `before` that are gone. A tool that cannot be registered is skipped with a warning.
    /// Returns the registered tools.
    pub(super) fn register(
        &self,
        tools: &[RawTool],
        blocked: &HashSet<String>,
        before: &[ToolName],
        registry: &ToolRegistry,
    ) -> Vec<(ToolName, Arc<UpstreamTool>)> {
        let registered: Vec<_> = tools
            .iter()
            .filter_map(|tool| self.register_one(tool, blocked, registry))
            .collect();
        let is_there = |gone: &ToolName| registered.iter().any(|(name, _)| name == gone);
        for gone in before.iter().filter(|name| !is_there(name)) {
            registry.unregister(gone.as_str());
        }
        registered
    }

    fn register_one(
        &self,
        raw: &RawTool,
        blocked: &HashSet<String>,
        registry: &ToolRegistry,
    ) -> Option<(ToolName, Arc<UpstreamTool>)> {
        let tool = UpstreamTool::read(self.server, raw)?;
        let warn = |reason: &dyn std::fmt::Display| {
            self.server.report_dropped(EntryKind::Tool, raw, reason);
        };
        if blocked.contains(tool.remote_name()) {
            return None;
        }
        let name = tool.definition().name().clone();
        let mut owner = None;
        let is_own = |holder: &RegisteredTool| {
            owner = self.conflicting_owner(holder);
            owner.is_none()
        };
        match (
            registry.register_preferred(Arc::clone(&tool) as Arc<dyn Tool>, is_own),
            owner,
        ) {
            (Ok(_), _) => return Some((name, tool)),
            (Err(_), Some(owner)) => warn(&format_args!("the name {name} belongs to {owner}")),
            (Err(error), None) => warn(&error),
        }
        None
    }

    /// Returns the owner of a tool, if it is not this server.
    fn conflicting_owner(&self, holder: &RegisteredTool) -> Option<String> {
        match holder.origin() {
            ToolOrigin::Mcp { server_label, .. } if *server_label == self.server.label => None,
            ToolOrigin::Mcp { server_label, .. } => Some(format!("MCP server `{server_label}`")),
            _ => Some("a tool of this sidecar".to_owned()),
        }
    }
}
