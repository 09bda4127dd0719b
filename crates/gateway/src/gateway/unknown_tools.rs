use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use pillion_core::registry::ToolRegistry;

use pillion_config::Config;

/// The tools that have settings of their own, checked against the registry: limits and approvals
/// under a wrong tool name have no effect.
#[derive(Debug)]
pub(super) struct UnknownTools {
    names: BTreeSet<String>,
    were_logged: AtomicBool,
}

impl UnknownTools {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            names: config.tools.keys().cloned().collect(),
            were_logged: AtomicBool::new(config.tools.is_empty()),
        }
    }

    /// Logs the names that no tool has, once. Call this when the tools of the MCP servers are
    /// known.
    pub(super) fn log_missing(&self, registry: &ToolRegistry) {
        for name in self.take_missing(registry) {
            tracing::warn!(
                tool.name = name,
                "The configuration has [tools.{name}], but there is no tool with this name"
            );
        }
    }

    /// Returns the names without a tool on the first call, and nothing on later calls.
    fn take_missing(&self, registry: &ToolRegistry) -> Vec<&str> {
        if self.were_logged.load(Ordering::Relaxed)
            || self.were_logged.swap(true, Ordering::Relaxed)
        {
            return Vec::new();
        }
        let names = self.names.iter().map(String::as_str);
        names.filter(|name| registry.get(name).is_none()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g2_settings_of_unknown_tools_are_logged_once() {
        let text =
            "[tools.calculator]\ntimeout_ms = 5\n[tools.far_ecko]\nrequire_approval = 'always'";
        let config = Config::parse(text, "pillion.toml").unwrap();
        let registry = crate::tools::registry().unwrap();
        let unknown_tools = UnknownTools::of(&config);
        assert_eq!(unknown_tools.take_missing(&registry), ["far_ecko"]);
        assert!(unknown_tools.were_logged.load(Ordering::Relaxed));
        assert!(unknown_tools.take_missing(&registry).is_empty());
    }
}
