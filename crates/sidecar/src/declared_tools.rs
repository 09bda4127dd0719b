//! The tools that the configuration declares, in the registry: composed ones, HTTP endpoints and
//! operations of OpenAPI documents.

mod keeper;

use std::sync::Arc;

use pillion_core::compose::{ComposedTool, StepKeeper};
use pillion_core::registry::{RegistryError, ToolRegistry};
use pillion_core::tool::{Tool, ToolName};

use crate::config::DeclaredTools;
use crate::events::{Bus, Event};
pub(crate) use keeper::Keeper;

/// The names of those that are registered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registered(Vec<ToolName>);

impl Registered {
    /// Whether the tool of that name is declared.
    pub(crate) fn has(&self, name: &ToolName) -> bool {
        self.0.contains(name)
    }

    /// Registers what is declared, in the place of what was before: that stays where it is
    /// declared still, and goes otherwise. A name that another tool has by now stays with that
    /// one.
    pub(crate) fn succeeded_by(
        &self,
        declared: &DeclaredTools,
        registry: &ToolRegistry,
        keeper: &Arc<dyn StepKeeper>,
        events: &Bus,
    ) -> Self {
        let composed = declared.composed.iter().map(|composition| {
            let tool = ComposedTool::new(composition.clone(), Arc::clone(keeper));
            Arc::new(tool) as Arc<dyn Tool>
        });
        let http = declared.http.iter().map(|tool| Arc::clone(tool) as _);
        let mut names = Vec::new();
        let (mut added, mut changed) = (Vec::new(), Vec::new());
        for tool in composed.chain(http) {
            let name = tool.definition().name().clone();
            let digest = tool.digest();
            let registered = match self.0.contains(&name) {
                true => registry.replace(tool).map(|before| {
                    if before.is_none_or(|before| before.tool().digest() != digest) {
                        changed.push(name.to_string());
                    }
                }),
                false => registry
                    .register(tool)
                    .map(|()| added.push(name.to_string())),
            };
            match registered {
                Ok(()) => names.push(name),
                Err(error) => warn(&name, &error),
            }
        }
        let gone = self.0.iter().filter(|name| !names.contains(name));
        let gone = gone.filter(|name| registry.unregister(name.as_str()));
        let removed: Vec<_> = gone.map(ToString::to_string).collect();
        if !(added.is_empty() && changed.is_empty() && removed.is_empty()) {
            events.tell(&Event::ToolsChanged {
                server: None,
                added,
                removed,
                changed,
            });
        }
        Self(names)
    }
}

fn warn(name: &ToolName, error: &RegistryError) {
    tracing::warn!(tool.name = %name, %error, "A tool of the configuration is not offered");
}
