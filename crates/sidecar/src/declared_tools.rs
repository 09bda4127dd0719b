//! The tools that the configuration has, in the registry: built-in ones that it may have or not,
//! those of packs, and what it declares, which are composed tools, HTTP endpoints and operations of
//! OpenAPI documents.

mod keeper;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use pillion_core::compose::{ComposedTool, StepKeeper};
use pillion_core::registry::{Placed, RegisteredTool, ToolRegistry};
use pillion_core::tool::Tool;

use crate::config::DeclaredTools;
use crate::events::{Bus, Event};
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
        let offered = |tool: &Arc<RegisteredTool>| tool.is_offered().then(|| name_of(tool));
        let (mut added, mut changed) = (Vec::new(), Vec::new());
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
            let before = put.before.as_ref().filter(|before| before.is_offered());
            match (put.outcome, before) {
                (Placed::StandsBy, _) => tracing::warn!(
                    tool.name = %name,
                    "The name {name} belongs to another tool, which stays; that of the \
                     configuration is offered when it is gone"
                ),
                (_, Some(before)) if put.entry.is_offered() => {
                    if !is_same(before, &put.entry) {
                        changed.push(name.to_string());
                    }
                }
                _ => added.extend(offered(&put.entry)),
            }
            now.push(put.entry);
        }
        let gone = self.0.iter().filter(|before| registry.withdraw(before));
        let mut removed: Vec<String> = gone.filter_map(offered).collect();
        // One that is offered no longer has been replaced as well.
        let unoffered = now.iter().filter(|tool| !tool.is_offered());
        let unoffered: HashSet<_> = unoffered.map(name_of).collect();
        let before = self.0.iter().filter_map(offered);
        removed.extend(before.filter(|name| unoffered.contains(name)));
        let is_same = added.is_empty() && changed.is_empty() && removed.is_empty();
        if let Some(events) = events.filter(|_| !is_same) {
            events.tell(&Event::ToolsChanged {
                server: None,
                added,
                removed,
                changed,
            });
        }
        Self(now)
    }
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
