use std::collections::HashSet;
use std::sync::Arc;

use pillion_core::compute;
use pillion_core::registry::{RegisteredTool, SchemaCheckTime};
use pillion_core::tool::{Tool, ToolName, ToolOrigin};
use pillion_mcp_client::EntryKind;
use serde_json::value::RawValue;

use super::tool::UpstreamTool;
use super::{Server, Upstreams};
use crate::pins::Definition;

/// A tool as its server described it.
pub(super) type RawTool = Box<RawValue>;

/// A tool whose definition and schema were checked.
#[derive(Debug, Clone)]
pub(super) struct CheckedTool {
    pub(super) upstream: Arc<UpstreamTool>,
    pub(super) registered: Arc<RegisteredTool>,
    /// The tool's index in the server's list.
    index: usize,
}

/// Returns the tools of a list that can be offered, with their definitions, and logs the problems of
/// the others. The list is checked on another thread: the size of a schema does not limit the time
/// of compiling the schema.
pub(super) async fn check_tools(
    server: &Arc<Server>,
    tools: &Arc<Vec<RawTool>>,
) -> (Vec<CheckedTool>, Vec<Definition>) {
    let (thread_server, tools) = (Arc::clone(server), Arc::clone(tools));
    compute::run(&server.label, usize::MAX, move || {
        let time = SchemaCheckTime::start();
        let tools = tools.iter().enumerate();
        let checked = tools.filter_map(|(index, raw)| check_tool(&thread_server, raw, index, time));
        checked.unzip()
    })
    .await
}

fn check_tool(
    server: &Arc<Server>,
    raw: &RawTool,
    index: usize,
    time: SchemaCheckTime,
) -> Option<(CheckedTool, Definition)> {
    let (upstream, definition) = UpstreamTool::read(server, raw)?;
    match RegisteredTool::for_list(Arc::clone(&upstream) as Arc<dyn Tool>, time) {
        Ok(registered) => {
            let registered = Arc::new(registered);
            let tool = CheckedTool {
                upstream,
                registered,
                index,
            };
            Some((tool, definition))
        }
        Err(error) => {
            server.entries.report_dropped(EntryKind::Tool, raw, &error);
            None
        }
    }
}

/// The tools of one server, to be registered.
pub(super) struct ListedTools<'a> {
    /// The servers of the current configuration, which decide who owns a name.
    pub(super) upstreams: &'a Upstreams,
    pub(super) server: &'a Arc<Server>,
    pub(super) raw: &'a [RawTool],
}

impl ListedTools<'_> {
    /// Registers all tools that are not blocked, each under its prefixed name, and unregisters the
    /// tools in `before` that the server no longer lists. A tool that cannot be registered is
    /// skipped with a warning. Returns the registered tools.
    pub(super) fn register(
        &self,
        tools: Vec<CheckedTool>,
        blocked: &HashSet<String>,
        before: &[ToolName],
    ) -> Vec<(ToolName, Arc<UpstreamTool>)> {
        let tools = self.with_distinct_names(tools);
        let registered: Vec<_> = tools
            .into_iter()
            .filter_map(|tool| self.register_one(tool, blocked))
            .collect();
        let names: HashSet<_> = registered.iter().map(|(name, _)| name).collect();
        let gone = before.iter().filter(|name| !names.contains(name));
        let registry = &self.upstreams.registry;
        self.server.unregister(gone.map(ToolName::as_str), registry);
        registered
    }

    /// Skips each tool whose name had to be changed and is now the name of another tool in the
    /// list.
    fn with_distinct_names(&self, mut tools: Vec<CheckedTool>) -> Vec<CheckedTool> {
        let is_unchanged = |tool: &CheckedTool| {
            let name = tool.registered.name().as_str();
            name.strip_prefix(self.server.tool_prefix()) == Some(tool.upstream.remote_name())
        };
        let unchanged = tools.iter().filter(|tool| is_unchanged(tool));
        let mut taken: HashSet<_> = unchanged
            .map(|tool| tool.registered.name().clone())
            .collect();
        tools.retain(|tool| {
            let name = tool.registered.name();
            let is_distinct = is_unchanged(tool) || taken.insert(name.clone());
            if let (false, Some(raw)) = (is_distinct, self.raw.get(tool.index)) {
                let conflict = format!("another tool of the server has the name {name}");
                self.server
                    .entries
                    .report_dropped(EntryKind::Tool, raw, &conflict);
            }
            is_distinct
        });
        tools
    }

    fn register_one(
        &self,
        tool: CheckedTool,
        blocked: &HashSet<String>,
    ) -> Option<(ToolName, Arc<UpstreamTool>)> {
        let CheckedTool {
            upstream,
            registered,
            index,
        } = tool;
        if blocked.contains(upstream.remote_name()) {
            return None;
        }
        let warn = |reason: &dyn std::fmt::Display| {
            if let Some(raw) = self.raw.get(index) {
                self.server
                    .entries
                    .report_dropped(EntryKind::Tool, raw, reason);
            }
        };
        let name = registered.name().clone();
        if let Some(conflict) = self.upstreams.name_conflict(self.server, name.as_str()) {
            self.server.record_name_conflict();
            warn(&conflict);
            return None;
        }
        let mut holder_of_name = None;
        let is_replaceable = |holder: &RegisteredTool| {
            let is_replaceable = self.may_replace(holder);
            if !is_replaceable {
                holder_of_name = Some(holder.origin().clone());
            }
            is_replaceable
        };
        let registry = &self.upstreams.registry;
        let outcome = registry.register_checked(registered, is_replaceable);
        match (outcome, holder_of_name) {
            (Ok(_), _) => return Some((name, upstream)),
            (Err(_), Some(ToolOrigin::Mcp { server_label, .. })) => {
                self.server.record_name_conflict();
                warn(&format_args!(
                    "the name {name} belongs to MCP server `{server_label}`"
                ));
            }
            (Err(error), _) => warn(&error),
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
