//! The tools that the configuration has, in the registry: built-in ones that it may have or not,
//! those of packs, and what it declares, which are composed tools, HTTP endpoints and operations of
//! OpenAPI documents.

mod keeper;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use pillion_core::compose::{ComposedTool, StepKeeper};
use pillion_core::registry::{Placed, RegisteredTool, ToolRegistry};
use pillion_core::tool::Tool;

use crate::config::DeclaredTools;
use crate::events::{Bus, ToolChanges};
pub(crate) use keeper::Keeper;

/// Those that are in the registry, or stand by there while others have their names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registered(Vec<Arc<RegisteredTool>>);

impl DeclaredTools {
    /// The tools that are declared.
    pub(crate) fn tools(&self, keeper: &Arc<dyn StepKeeper>) -> Vec<Arc<dyn Tool>> {
        let composed = self.composed.iter().map(|composition| {
            let tool = ComposedTool::new(composition.clone(), Arc::clone(keeper));
            Arc::new(tool) as Arc<dyn Tool>
        });
        let http = self.http.iter().map(|tool| Arc::clone(tool) as _);
        composed.chain(http).collect()
    }
}

impl Registered {
    /// Registers these in the place of what was before: at no moment is a name without a tool that
    /// has one before and after. A name that somebody else's tool has stays with that one as long
    /// as it is there. Of two tools of one name the first counts, unless it is not offered. Without
    /// `events` nobody is told, for nobody has known others.
    pub(crate) fn succeeded_by(
        &self,
        tools: Vec<Arc<dyn Tool>>,
        registry: &ToolRegistry,
        events: Option<&Bus>,
    ) -> Self {
        // Those that are offered, and do not stand by.
        let held = |tools: &[Arc<RegisteredTool>]| -> Vec<Arc<RegisteredTool>> {
            let tools = tools.iter().filter(|tool| is_held_by(tool, registry));
            tools.cloned().collect()
        };
        let before = held(&self.0);
        let mut now = Vec::new();
        for tool in without_doubles(tools) {
            let name = tool.definition().name().clone();
            let may_replace = |holder: &Arc<RegisteredTool>| {
                !holder.is_offered() || self.0.iter().any(|ours| Arc::ptr_eq(ours, holder))
            };
            let put = match registry.put(tool, may_replace) {
                Ok(put) => put,
                Err(error) => {
                    tracing::warn!(tool.name = %name, %error, "A tool of the configuration is not offered");
                    continue;
                }
            };
            if put.outcome == Placed::StandsBy {
                tracing::warn!(
                    tool.name = %name,
                    "The name {name} belongs to another tool, which stays; that of the \
                     configuration is offered when it is gone"
                );
            }
            now.push(put.entry);
        }
        for tool in &self.0 {
            registry.withdraw(tool);
        }
        if let Some(events) = events {
            changes(&before, &held(&now)).tell(None, registry, events);
        }
        Self(now)
    }
}

/// What is told of the tools that are offered now in the place of those before.
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

/// Whether a tool is offered under its name.
fn is_held_by(tool: &Arc<RegisteredTool>, registry: &ToolRegistry) -> bool {
    let holder = registry.get(tool.name().as_str());
    tool.is_offered() && holder.is_some_and(|holder| Arc::ptr_eq(&holder, tool))
}

fn name_of(tool: &Arc<RegisteredTool>) -> String {
    tool.name().to_string()
}

/// Whether whoever knows one knows the other.
fn is_same(one: &RegisteredTool, other: &RegisteredTool) -> bool {
    one.definition() == other.definition() && one.tool().digest() == other.tool().digest()
}

fn without_doubles(tools: Vec<Arc<dyn Tool>>) -> Vec<Arc<dyn Tool>> {
    let mut kept: Vec<Arc<dyn Tool>> = Vec::new();
    for tool in tools {
        let name = tool.definition().name();
        let first = kept.iter_mut().find(|it| it.definition().name() == name);
        match first {
            None => kept.push(tool),
            Some(first) if !first.is_offered() => *first = tool,
            Some(_) => tracing::warn!(
                tool.name = %name,
                "Two tools of the configuration have the name {name}; the second is not offered"
            ),
        }
    }
    kept
}
