use std::collections::HashSet;
use std::sync::Arc;

use pillion_core::compute;
use pillion_core::registry::{RegisteredTool, SchemaCheckTime};
use pillion_core::tool::{Tool, ToolName, ToolOrigin};
use serde_json::value::RawValue;

use super::tool::UpstreamTool;
use super::{Server, Upstreams};
use crate::pins::Definition;

/// A tool as its server described it.
pub(super) type RawTool = Box<RawValue>;

/// A tool whose definition and schema were validated.
#[derive(Debug, Clone)]
pub(super) struct CheckedTool {
    pub(super) upstream_tool: Arc<UpstreamTool>,
    pub(super) registered_tool: Arc<RegisteredTool>,
    /// The tool's index in the server's list.
    index: usize,
}

/// Returns the tools of a list that can be offered, with their definitions, and logs why other
/// tools of the list cannot be offered. The list is checked on another thread, because even a small
/// schema may take long to compile.
pub(super) async fn check_tools(
    server: &Arc<Server>,
    tools: &Arc<Vec<RawTool>>,
) -> (Vec<CheckedTool>, Vec<Definition>) {
    let (thread_server, tools) = (Arc::clone(server), Arc::clone(tools));
    compute::run(&server.label, usize::MAX, move || {
        let check_time = SchemaCheckTime::start();
        let tools = tools.iter().enumerate();
        let checked_tools = tools.filter_map(|(index, raw_tool)| {
            check_tool(&thread_server, raw_tool, index, check_time)
        });
        checked_tools.unzip()
    })
    .await
}

fn check_tool(
    server: &Arc<Server>,
    raw_tool: &RawTool,
    index: usize,
    check_time: SchemaCheckTime,
) -> Option<(CheckedTool, Definition)> {
    let (upstream_tool, definition) = UpstreamTool::parse(server, raw_tool)?;
    match RegisteredTool::for_list(Arc::clone(&upstream_tool) as Arc<dyn Tool>, check_time) {
        Ok(registered) => {
            let registered_tool = Arc::new(registered);
            let tool = CheckedTool {
                upstream_tool,
                registered_tool,
                index,
            };
            Some((tool, definition))
        }
        Err(error) => {
            server.report_dropped_tool(raw_tool, &error);
            None
        }
    }
}

/// The tools of one server, to be registered.
pub(super) struct ListedTools<'a> {
    /// The servers of the current configuration, which determines the owners of tool names.
    pub(super) upstreams: &'a Upstreams,
    pub(super) server: &'a Arc<Server>,
    pub(super) raw_tools: &'a [RawTool],
}

impl ListedTools<'_> {
    /// Registers all tools that are not blocked, each under its prefixed name, and unregisters the
    /// tools `previous_names` that the server no longer lists. A tool that cannot be registered is
    /// skipped with a warning. Returns the registered tools.
    pub(super) fn register(
        &self,
        tools: Vec<CheckedTool>,
        blocked_names: &HashSet<String>,
        previous_names: &[ToolName],
    ) -> Vec<(ToolName, Arc<UpstreamTool>)> {
        let registered = self
            .skip_same_names(tools)
            .into_iter()
            .filter_map(|tool| self.register_tool(tool, blocked_names));
        let registered_tools: Vec<_> = registered.collect();
        let names: HashSet<_> = registered_tools.iter().map(|(name, _)| name).collect();
        let unlisted_names = previous_names.iter().filter(|name| !names.contains(name));
        let registry = &self.upstreams.registry;
        self.server
            .unregister(unlisted_names.map(ToolName::as_str), registry);
        registered_tools
    }

    /// Skips each tool whose name had to be changed and is now the name of another tool in the
    /// list.
    fn skip_same_names(&self, mut tools: Vec<CheckedTool>) -> Vec<CheckedTool> {
        let is_unchanged = |tool: &CheckedTool| {
            let name = tool.registered_tool.name().as_str();
            name.strip_prefix(self.server.tool_prefix()) == Some(tool.upstream_tool.remote_name())
        };
        let unchanged_tools = tools.iter().filter(|tool| is_unchanged(tool));
        let mut used_names: HashSet<_> = unchanged_tools
            .map(|tool| tool.registered_tool.name().clone())
            .collect();
        tools.retain(|tool| {
            let name = tool.registered_tool.name();
            let is_distinct = is_unchanged(tool) || used_names.insert(name.clone());
            if let (false, Some(raw_tool)) = (is_distinct, self.raw_tools.get(tool.index)) {
                let conflict = format!("another tool of the server has the name {name}");
                self.server.report_dropped_tool(raw_tool, &conflict);
            }
            is_distinct
        });
        tools
    }

    fn register_tool(
        &self,
        tool: CheckedTool,
        blocked_names: &HashSet<String>,
    ) -> Option<(ToolName, Arc<UpstreamTool>)> {
        let CheckedTool {
            upstream_tool,
            registered_tool,
            index,
        } = tool;
        if blocked_names.contains(upstream_tool.remote_name()) {
            return None;
        }
        let report_reason = |reason: &dyn std::fmt::Display| {
            if let Some(raw_tool) = self.raw_tools.get(index) {
                self.server.report_dropped_tool(raw_tool, reason);
            }
        };
        let name = registered_tool.name().clone();
        if let Some(conflict) = self.upstreams.name_conflict(self.server, name.as_str()) {
            self.server.record_name_conflict();
            report_reason(&conflict);
            return None;
        }
        let mut name_holder = None;
        let is_replaceable = |holder: &RegisteredTool| {
            let is_replaceable = self.may_replace(holder);
            if !is_replaceable {
                name_holder = Some(holder.origin().clone());
            }
            is_replaceable
        };
        let registry = &self.upstreams.registry;
        let outcome = registry.register_checked(registered_tool, is_replaceable);
        match (outcome, name_holder) {
            (Ok(_), _) => return Some((name, upstream_tool)),
            (Err(_), Some(ToolOrigin::Mcp { server_label, .. })) => {
                self.server.record_name_conflict();
                report_reason(&format_args!(
                    "the name {name} belongs to MCP server `{server_label}`"
                ));
            }
            (Err(error), _) => report_reason(&error),
        }
        None
    }

    /// Returns whether this server's tool replaces a registered tool of the same name: a tool of
    /// this server, or of a server with the same prefix that comes later in the configuration.
    fn may_replace(&self, holder: &RegisteredTool) -> bool {
        let owners = &self.upstreams.owners;
        match holder.origin() {
            ToolOrigin::Mcp { server_label, .. } => {
                let (label, name) = (&self.server.label, holder.name().as_str());
                server_label == label || owners.takes_precedence(label, server_label, name)
            }
            _ => false,
        }
    }
}
