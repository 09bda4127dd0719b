use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use pillion_core::registry::ToolRegistry;

use pillion_config::Config;

/// The tools that settings name, checked against the registry: limits, approvals and permissions
/// under a wrong tool name have no effect.
#[derive(Debug)]
pub(super) struct UnknownTools {
    /// The setting and the tool's name.
    names: BTreeSet<(String, String)>,
    were_logged: AtomicBool,
}

impl UnknownTools {
    pub(super) fn of(config: &Config) -> Self {
        let sections = config.tools.keys();
        let sections = sections.map(|name| (format!("[tools.{name}]"), name.clone()));
        let trusted = config.approvals.trusted_tools.iter();
        let trusted =
            trusted.map(|name| (format!("approvals.trusted_tools '{name}'"), name.clone()));
        let models = config.models.iter().flat_map(|model| {
            let enabled = model.config.tools.enabled_tools.iter();
            let id = &model.config.id;
            enabled.map(move |name| {
                (
                    format!("enabled_tools '{name}' of model '{id}'"),
                    name.clone(),
                )
            })
        });
        let names: BTreeSet<_> = sections.chain(trusted).chain(models).collect();
        Self {
            were_logged: AtomicBool::new(names.is_empty()),
            names,
        }
    }

    /// Logs the names that no tool has, once. Call this when the tools of the MCP servers are
    /// known.
    pub(super) fn log_missing(&self, registry: &ToolRegistry) {
        for (setting, name) in self.take_missing(registry) {
            tracing::warn!(
                tool.name = name,
                "The configuration has {setting}, but there is no tool with this name"
            );
        }
    }

    /// Returns the settings and names without a tool on the first call, and nothing on later calls.
    fn take_missing(&self, registry: &ToolRegistry) -> Vec<(&str, &str)> {
        if self.were_logged.load(Ordering::Relaxed)
            || self.were_logged.swap(true, Ordering::Relaxed)
        {
            return Vec::new();
        }
        let names = self.names.iter();
        let names = names.map(|(setting, name)| (setting.as_str(), name.as_str()));
        names
            .filter(|(_, name)| registry.get(name).is_none())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g2_settings_of_unknown_tools_are_logged_once() {
        let text = "[tools.calculator]\ntimeout_ms = 5\n[tools.far_ecko]\nrequire_approval = 'always'\n\
             [approvals]\ntrusted_tools = ['calculator', 'get_tyme']\n\
             [[models]]\nid = 'm'\ntools = { enabled_tools = ['get_time', 'roll_dyce'] }";
        let config = Config::parse(text, "pillion.toml").unwrap();
        let registry = crate::tools::registry().unwrap();
        let unknown_tools = UnknownTools::of(&config);
        assert_eq!(
            unknown_tools.take_missing(&registry),
            [
                ("[tools.far_ecko]", "far_ecko"),
                ("approvals.trusted_tools 'get_tyme'", "get_tyme"),
                ("enabled_tools 'roll_dyce' of model 'm'", "roll_dyce"),
            ]
        );
        assert!(unknown_tools.were_logged.load(Ordering::Relaxed));
        assert!(unknown_tools.take_missing(&registry).is_empty());
    }
}
