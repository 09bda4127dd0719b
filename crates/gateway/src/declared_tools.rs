//! The tools of the configuration in the registry: optional built-in tools, tools of packs, and
//! declared tools, which are composed tools, HTTP endpoints and operations of OpenAPI documents.

mod step_checkpoints;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use pillion_core::compose::{CheckpointStore, ComposedTool};
use pillion_core::registry::{RegisteredTool, RegistrationState, ToolRegistry};
use pillion_core::tool::Tool;

use crate::events::{Bus, ToolChanges};
use pillion_config::DeclaredTools;
pub use step_checkpoints::StepCheckpoints;

/// The registered tools of the configuration, including those that wait because other tools have
/// their names.
#[derive(Debug, Clone, Default)]
pub struct Registered(Vec<Arc<RegisteredTool>>);

/// Builds the tools that the configuration declares.
pub fn build(
    declared: &DeclaredTools,
    checkpoints: &Arc<dyn CheckpointStore>,
) -> Vec<Arc<dyn Tool>> {
    let composed = declared.composed.iter().map(|composition| {
        let tool = ComposedTool::new(composition.clone(), Arc::clone(checkpoints));
        Arc::new(tool) as Arc<dyn Tool>
    });
    let http = declared.http.iter().map(|tool| Arc::clone(tool) as _);
    composed.chain(http).collect()
}

impl Registered {
    /// Registers `tools` in place of the previous tools. A name that has a tool before and after is
    /// never without a tool in between. A tool of an MCP server loses such a name; a name that
    /// belongs to another tool, such as a worker's, stays with that tool as long as it exists. If
    /// two of `tools` have one name, the first counts, unless it is not offered. Without `events`,
    /// no changes are published.
    pub fn replace_tools(
        &self,
        tools: Vec<Arc<dyn Tool>>,
        registry: &ToolRegistry,
        events: Option<&Bus>,
    ) -> Self {
        // The changes concern only offered tools that are registered under their names.
        let held = |tools: &[Arc<RegisteredTool>]| -> Vec<Arc<RegisteredTool>> {
            let tools = tools.iter().filter(|tool| is_registered_in(tool, registry));
            tools.cloned().collect()
        };
        let before = held(&self.0);
        let mut now = Vec::new();
        for tool in remove_duplicates(tools) {
            let name = tool.definition().name().clone();
            let may_replace = |holder: &Arc<RegisteredTool>| {
                let is_ours = || self.0.iter().any(|own| Arc::ptr_eq(own, holder));
                !holder.is_offered() || holder.origin().is_mcp() || is_ours()
            };
            let put = match registry.put(tool, may_replace) {
                Ok(put) => put,
                Err(error) => {
                    tracing::warn!(
                        tool.name = %name, %error,
                        "Cannot register a tool of the configuration"
                    );
                    continue;
                }
            };
            if put.outcome == RegistrationState::StandsBy {
                tracing::warn!(
                    tool.name = %name,
                    "Another tool already has the name {name}: the tool of the configuration is \
                     offered once that tool is removed"
                );
            }
            now.push(put.entry);
        }
        for tool in &self.0 {
            registry.withdraw(tool);
        }
        if let Some(events) = events {
            changes(&before, &held(&now)).publish(None, registry, events);
        }
        Self(now)
    }
}

/// Returns the differences between two sets of offered tools.
fn changes(before: &[Arc<RegisteredTool>], now: &[Arc<RegisteredTool>]) -> ToolChanges {
    let mut changes = ToolChanges::default();
    for tool in now {
        match before.iter().find(|other| other.name() == tool.name()) {
            None => changes.added.push(name_of(tool)),
            Some(other) if !is_same(other, tool) => changes.changed.push(name_of(tool)),
            Some(_) => {}
        }
    }
    let gone = before
        .iter()
        .filter(|tool| now.iter().all(|other| other.name() != tool.name()));
    changes.removed.extend(gone.map(name_of));
    changes
}

/// Returns whether a tool is offered under its name.
fn is_registered_in(tool: &Arc<RegisteredTool>, registry: &ToolRegistry) -> bool {
    let holder = registry.get(tool.name().as_str());
    tool.is_offered() && holder.is_some_and(|holder| Arc::ptr_eq(&holder, tool))
}

fn name_of(tool: &Arc<RegisteredTool>) -> String {
    tool.name().to_string()
}

/// Returns whether two tools are the same for clients.
fn is_same(one: &RegisteredTool, other: &RegisteredTool) -> bool {
    one.definition() == other.definition() && one.tool().digest() == other.tool().digest()
}

fn remove_duplicates(tools: Vec<Arc<dyn Tool>>) -> Vec<Arc<dyn Tool>> {
    let mut unique: Vec<Arc<dyn Tool>> = Vec::new();
    for tool in tools {
        let name = tool.definition().name();
        let first = unique.iter_mut().find(|it| it.definition().name() == name);
        match first {
            None => unique.push(tool),
            Some(first) if !first.is_offered() => *first = tool,
            Some(_) => tracing::warn!(
                tool.name = %name,
                "Two tools of the configuration have the name {name}; the second is not offered"
            ),
        }
    }
    unique
}
