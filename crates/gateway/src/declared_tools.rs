//! The tools that the configuration adds to the registry: optional built-in tools, tools of packs,
//! and declared tools, which are composed tools, HTTP endpoints and operations of OpenAPI
//! documents.

mod step_checkpoints;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use pillion_core::compose::{CheckpointStore, ComposedTool};
use pillion_core::registry::{RegisteredTool, RegistrationState, ToolRegistry};
use pillion_core::tool::Tool;

use crate::events::{EventBus, ToolChanges};
use pillion_config::DeclaredTools;
pub use step_checkpoints::StepCheckpoints;

/// The tools that the configuration declares, including tools that cannot be registered yet,
/// because other tools have their names.
#[derive(Debug, Clone, Default)]
pub struct RegisteredTools(Vec<Arc<RegisteredTool>>);

/// Builds the tools that the configuration declares.
pub fn build(declared: &DeclaredTools, store: &Arc<dyn CheckpointStore>) -> Vec<Arc<dyn Tool>> {
    let composed_tools = declared.composed.iter().map(|composition| {
        let tool = ComposedTool::new(composition.clone(), Arc::clone(store));
        Arc::new(tool) as Arc<dyn Tool>
    });
    let http_tools = declared.http.iter().map(|tool| Arc::clone(tool) as _);
    composed_tools.chain(http_tools).collect()
}

impl RegisteredTools {
    /// Registers `tools` in place of the previous tools. Publishes the changes to `events`, if set.
    ///
    /// - A previous tool is replaced by the new tool of the same name without an interval in which
    ///   the name is unknown.
    /// - A new tool replaces an MCP server's tool of the same name.
    /// - A new tool whose name belongs to any other tool, such as a worker's, is not offered until
    ///   the other tool is removed.
    /// - If two of `tools` have the same name, the first offered tool gets the name.
    pub fn replace_tools(
        &self,
        tools: Vec<Arc<dyn Tool>>,
        registry: &ToolRegistry,
        events: Option<&EventBus>,
    ) -> Self {
        // Only tools that are offered and registered under their names are compared, because
        // clients see no other tools.
        let offered_under_name = |tools: &[Arc<RegisteredTool>]| -> Vec<Arc<RegisteredTool>> {
            let tools = tools.iter().filter(|tool| is_registered_in(tool, registry));
            tools.cloned().collect()
        };
        let previous_tools = offered_under_name(&self.0);
        let mut current_tools = Vec::new();
        for tool in remove_duplicates(tools) {
            let name = tool.definition().name().clone();
            let may_replace = |holder: &Arc<RegisteredTool>| {
                let is_previous_tool = || self.0.iter().any(|tool| Arc::ptr_eq(tool, holder));
                !holder.is_offered() || holder.origin().is_mcp() || is_previous_tool()
            };
            let registration = match registry.put(tool, may_replace) {
                Ok(registration) => registration,
                Err(error) => {
                    tracing::warn!(
                        tool.name = %name, %error,
                        "Cannot register a tool of the configuration"
                    );
                    continue;
                }
            };
            if registration.outcome == RegistrationState::OnStandby {
                tracing::warn!(
                    tool.name = %name,
                    "Another tool already has the name {name}: the tool of the configuration is \
                     offered once that tool is removed"
                );
            }
            current_tools.push(registration.entry);
        }
        for tool in &self.0 {
            registry.withdraw(tool);
        }
        if let Some(events) = events {
            compare_tools(&previous_tools, &offered_under_name(&current_tools))
                .publish(None, registry, events);
        }
        Self(current_tools)
    }
}

/// Returns the differences between two sets of offered tools.
fn compare_tools(previous: &[Arc<RegisteredTool>], current: &[Arc<RegisteredTool>]) -> ToolChanges {
    let mut changes = ToolChanges::default();
    for tool in current {
        match previous.iter().find(|other| other.name() == tool.name()) {
            None => changes.added_names.push(tool_name(tool)),
            Some(other) if !is_same(other, tool) => changes.changed_names.push(tool_name(tool)),
            Some(_) => {}
        }
    }
    let removed_tools = previous.iter().filter(|tool| {
        let mut current_tools = current.iter();
        current_tools.all(|other| other.name() != tool.name())
    });
    changes.removed_names.extend(removed_tools.map(tool_name));
    changes
}

/// Returns whether a tool is offered, and is the tool that `registry` has under the tool's name.
fn is_registered_in(tool: &Arc<RegisteredTool>, registry: &ToolRegistry) -> bool {
    let holder = registry.get(tool.name().as_str());
    tool.is_offered() && holder.is_some_and(|holder| Arc::ptr_eq(&holder, tool))
}

fn tool_name(tool: &Arc<RegisteredTool>) -> String {
    tool.name().to_string()
}

/// Returns whether clients see no difference between two tools.
fn is_same(left: &RegisteredTool, right: &RegisteredTool) -> bool {
    left.definition() == right.definition() && left.tool().digest() == right.tool().digest()
}

fn remove_duplicates(tools: Vec<Arc<dyn Tool>>) -> Vec<Arc<dyn Tool>> {
    let mut unique_tools: Vec<Arc<dyn Tool>> = Vec::new();
    for tool in tools {
        let name = tool.definition().name();
        let mut others = unique_tools.iter_mut();
        match others.find(|other| other.definition().name() == name) {
            None => unique_tools.push(tool),
            Some(first_tool) if !first_tool.is_offered() => *first_tool = tool,
            Some(_) => tracing::warn!(
                tool.name = %name,
                "Two tools of the configuration have the name {name}; the second is not offered"
            ),
        }
    }
    unique_tools
}
