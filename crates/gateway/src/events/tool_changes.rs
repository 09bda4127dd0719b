use pillion_core::registry::ToolRegistry;

use super::{Bus, Event};

/// Is notified synchronously that tools have changed.
pub trait ToolListener: std::fmt::Debug + Send + Sync {
    /// Is called after each change.
    fn tools_changed(&self);
}

/// Is notified of new tools, before listeners of the bus are.
pub(crate) trait NewToolObserver: std::fmt::Debug + Send + Sync {
    /// Is called with the names of tools that were added, of an MCP server or of other sources.
    fn tools_added(&self, server: Option<&str>, names: &[String]);
}

/// The names of added, removed and changed tools.
#[derive(Debug, Default)]
pub struct ToolChanges {
    pub(crate) added: Vec<String>,
    pub(crate) removed: Vec<String>,
    pub(crate) changed: Vec<String>,
}

impl ToolChanges {
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    /// Publishes the changes, if any: of an MCP server's tools, or of other tools without `server`.
    /// A removed name counts as changed if `registry` already has another tool with that name.
    pub(crate) fn publish(mut self, server: Option<&str>, registry: &ToolRegistry, bus: &Bus) {
        let is_taken_up = |name: &String| {
            let tool = registry.get(name);
            tool.is_some_and(|tool| tool.is_offered() && tool.name().as_str() == name)
        };
        let taken_up = self.removed.extract_if(.., |name| is_taken_up(name));
        self.changed.extend(taken_up);
        if !self.is_empty() {
            bus.observe_added(server, &self.added);
            bus.publish(&Event::ToolsChanged {
                server,
                changes: self,
            });
        }
    }
}
