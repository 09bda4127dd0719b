use pillion_core::registry::ToolRegistry;

use super::{Bus, Event};

/// Who is told at once that there are other tools, whatever they are.
pub(crate) trait ToolListener: std::fmt::Debug + Send + Sync {
    fn tools_changed(&self);
}

/// The names of tools that came, went, or are others than before.
#[derive(Debug, Default)]
pub(crate) struct ToolChanges {
    pub(crate) added: Vec<String>,
    pub(crate) removed: Vec<String>,
    pub(crate) changed: Vec<String>,
}

impl ToolChanges {
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    /// Tells whoever listens, if there is anything to tell: of tools of that MCP server, or of others.
    /// A name whose tool went has changed if `registry` has another by that name already, which may
    /// have waited for it.
    pub(crate) fn tell(mut self, server: Option<&str>, registry: &ToolRegistry, bus: &Bus) {
        let is_taken_up = |name: &String| {
            let tool = registry.get(name);
            tool.is_some_and(|tool| tool.is_offered() && tool.name().as_str() == name)
        };
        let taken_up = self.removed.extract_if(.., |name| is_taken_up(name));
        self.changed.extend(taken_up);
        if !self.is_empty() {
            bus.tell(&Event::ToolsChanged {
                server,
                changes: self,
            });
        }
    }
}
