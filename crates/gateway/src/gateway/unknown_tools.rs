use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use pillion_core::registry::ToolRegistry;
use pillion_core::tool::ToolOrigin;

use crate::events::NewToolObserver;
use pillion_config::Config;

/// Checks the tool names in settings against the existing tools, because a limit, an approval rule
/// or a permission for a misspelled tool name has no effect.
#[derive(Debug)]
pub(super) struct UnknownTools {
    /// The names in settings that have matched no tool and were not logged yet.
    unmatched_names: Mutex<Vec<NamedTool>>,
    /// The tool prefixes of the MCP servers that have one, in lower case, by the server's label.
    prefixes: BTreeMap<String, String>,
    /// Whether the warning about names in settings that match no tool was logged.
    were_missing_names_logged: AtomicBool,
}

/// A tool name in a setting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct NamedTool {
    setting: String,
    name: String,
    /// Whether the setting also applies to names that differ in case.
    ignores_case: bool,
}

impl NamedTool {
    fn matches(&self, tool: &str) -> bool {
        self.name == tool || (self.ignores_case && self.name.eq_ignore_ascii_case(tool))
    }
}

impl UnknownTools {
    pub(super) fn new(config: &Config) -> Self {
        let to_named_tool = |setting: String, name: &String, ignores_case| NamedTool {
            setting,
            name: name.clone(),
            ignores_case,
        };
        let section_names = config.tools.iter().map(|(name, section)| {
            to_named_tool(format!("[tools.{name}]"), name, section.is_case_insensitive)
        });
        let trusted_tools = config.approvals.trusted_tools.iter();
        let trusted_names = trusted_tools
            .map(|name| to_named_tool(format!("approvals.trusted_tools '{name}'"), name, false));
        let model_names = config.models.iter().flat_map(|model| {
            let id = &model.config.id;
            let enabled_tools = model.config.tools.enabled_tools.iter();
            enabled_tools.map(move |name| {
                let setting = format!("enabled_tools '{name}' of model '{id}'");
                to_named_tool(setting, name, false)
            })
        });
        let mut unmatched_names: Vec<_> = section_names
            .chain(trusted_names)
            .chain(model_names)
            .collect();
        unmatched_names.sort();
        unmatched_names.dedup();
        let servers = config.mcp_servers.iter();
        let prefixes = servers.map(|server| {
            let prefix = server.tool_prefix().to_ascii_lowercase();
            (server.label().to_owned(), prefix)
        });
        Self {
            were_missing_names_logged: AtomicBool::new(unmatched_names.is_empty()),
            unmatched_names: Mutex::new(unmatched_names),
            prefixes: prefixes.filter(|(_, prefix)| !prefix.is_empty()).collect(),
        }
    }

    /// Logs, once, the names in settings that match no tool. Must be called when the tools of all
    /// MCP servers are known.
    pub(super) fn log_missing_names(&self, registry: &ToolRegistry) {
        for NamedTool { setting, name, .. } in self.take_missing_names(registry) {
            tracing::warn!(
                tool.name = name,
                "The configuration has {setting}, but there is no tool with this name"
            );
        }
    }

    /// Checks the names in settings against the registered tools of MCP servers.
    pub(super) fn check_servers(&self, registry: &ToolRegistry) {
        let mut servers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for tool in registry.tools(None) {
            if let ToolOrigin::Mcp { server_label, .. } = tool.origin() {
                let names = servers.entry(server_label.clone()).or_default();
                names.push(tool.name().to_string());
            }
        }
        for (server, names) in servers {
            self.tools_added(Some(&server), &names);
        }
    }

    /// Returns the names in settings that match no tool on the first call, and nothing on later
    /// calls.
    fn take_missing_names(&self, registry: &ToolRegistry) -> Vec<NamedTool> {
        if self.were_missing_names_logged.load(Ordering::Relaxed)
            || self.were_missing_names_logged.swap(true, Ordering::Relaxed)
        {
            return Vec::new();
        }
        let mut unmatched_names = std::mem::take(&mut *self.unmatched_names.lock());
        unmatched_names.retain(|named_tool| {
            if named_tool.ignores_case {
                !registry.contains_in_any_case(&named_tool.name)
            } else {
                !registry.contains(&named_tool.name)
            }
        });
        unmatched_names
    }

    /// Removes the pending names that match an added tool. Also removes and returns the names that
    /// are probably misspelled: names that differ from an added tool only in case, and names that
    /// begin with the prefix of the added tools' server but match no tool. Returns each name with
    /// the reason.
    fn take_misspelled_names(
        &self,
        server: Option<&str>,
        added_tools: &[String],
    ) -> Vec<(NamedTool, String)> {
        let prefix = server.and_then(|server| Some((server, self.prefixes.get(server)?)));
        let mut misspelled_names = Vec::new();
        self.unmatched_names.lock().retain(|named_tool| {
            if added_tools.iter().any(|tool| named_tool.matches(tool)) {
                return false;
            }
            let mut tools = added_tools.iter();
            let similar_tool = tools.find(|tool| tool.eq_ignore_ascii_case(&named_tool.name));
            let lowercase_name = named_tool.name.to_ascii_lowercase();
            let reason = match (similar_tool, prefix) {
                (Some(tool), _) => format!("the tool is called '{tool}'"),
                (None, Some((server, prefix))) if lowercase_name.starts_with(prefix.as_str()) => {
                    format!("the MCP server '{server}' has no tool with this name")
                }
                _ => return true,
            };
            misspelled_names.push((named_tool.clone(), reason));
            false
        });
        misspelled_names
    }
}

impl NewToolObserver for UnknownTools {
    fn tools_added(&self, server: Option<&str>, names: &[String]) {
        for (NamedTool { setting, name, .. }, reason) in self.take_misspelled_names(server, names) {
            tracing::warn!(
                tool.name = name,
                "The configuration has {setting}, but {reason}"
            );
        }
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
        let unknown_tools = UnknownTools::new(&config);
        let missing = unknown_tools.take_missing_names(&registry);
        let named = missing.iter().map(|named| (&*named.setting, &*named.name));
        assert_eq!(
            named.collect::<Vec<_>>(),
            [
                ("[tools.far_ecko]", "far_ecko"),
                ("approvals.trusted_tools 'get_tyme'", "get_tyme"),
                ("enabled_tools 'roll_dyce' of model 'm'", "roll_dyce"),
            ]
        );
        assert!(
            unknown_tools
                .were_missing_names_logged
                .load(Ordering::Relaxed)
        );
        assert!(unknown_tools.take_missing_names(&registry).is_empty());
    }

    #[test]
    fn g2_a_misspelled_name_is_logged_when_its_server_or_tool_appears() {
        let text = "[tools.crm_deleteuser]\nrequire_approval = 'always'\n\
             [tools.crm_drop]\nrequire_approval = 'always'\n\
             [tools.ECHO]\nrequire_approval = 'always'\n\
             [tools.down_x]\nrequire_approval = 'always'\n\
             [[mcp_servers]]\nlabel = 'crm'\nurl = 'http://127.0.0.1:1/'\n\
             [[mcp_servers]]\nlabel = 'down'\nurl = 'http://127.0.0.1:1/'\n";
        let variable = ("PILLION__TOOLS__CRM_GETALL__TIMEOUT_MS".into(), "5".into());
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pillion.toml");
        std::fs::write(&file, text).unwrap();
        let config = Config::load(Some(&file), [variable]).unwrap();
        let unknown_tools = UnknownTools::new(&config);
        let misspelled = |server: Option<&str>, names: &[&str]| {
            let names: Vec<_> = names.iter().map(ToString::to_string).collect();
            unknown_tools
                .take_misspelled_names(server, &names)
                .into_iter()
                .map(|(named, reason)| (named.name, reason))
                .collect::<Vec<_>>()
        };
        let of = |name: &str, reason: &str| (name.to_owned(), reason.to_owned());
        let names = ["crm_deleteUser", "crm_getAll"];
        assert_eq!(
            misspelled(Some("crm"), &names),
            [
                of("crm_deleteuser", "the tool is called 'crm_deleteUser'"),
                of(
                    "crm_drop",
                    "the MCP server 'crm' has no tool with this name"
                ),
            ]
        );
        assert_eq!(misspelled(Some("crm"), &names), []);
        let echo = of("ECHO", "the tool is called 'echo'");
        assert_eq!(misspelled(None, &["echo"]), [echo]);
        let registry = crate::tools::registry().unwrap();
        let missing = unknown_tools.take_missing_names(&registry);
        assert_eq!(missing.len(), 1);
        assert_eq!(missing[0].name, "down_x");
    }
}
