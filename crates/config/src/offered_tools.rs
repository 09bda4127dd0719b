use std::fmt;
use std::sync::{Arc, LazyLock};

use pillion_core::tool::{ToolNamePattern, ToolOrigin};
use serde::de::{Deserialize, Deserializer, Error, Unexpected};

use super::network_tools;

/// `mcp.tools`: the tools that are offered to MCP clients; every tool by default.
///
/// An entry is a tool's name, a prefix of names followed by `*`, `@builtin` for the built-in tools,
/// or `@servers` for the tools of MCP servers. An entry that begins with `!` excludes tools. If all
/// entries begin with `!`, every tool that they do not exclude is offered.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OfferedTools(Option<Arc<[OfferEntry]>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct OfferEntry {
    is_excluded: bool,
    tools: ToolSelector,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ToolSelector {
    Builtin,
    Servers,
    Named(ToolNamePattern),
}

/// The names of the built-in tools.
static BUILT_IN_NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut names = Vec::from(network_tools::TOOL_NAMES.map(str::to_owned));
    names.extend(["search_memory", "remember", "forget"].map(str::to_owned));
    for tool in pillion_builtins::all() {
        names.push(tool.definition().name().to_string());
    }
    names
});

impl OfferedTools {
    /// Returns whether the tool registered under `name` is offered.
    pub fn is_offered(&self, name: &str, origin: &ToolOrigin) -> bool {
        let Some(entries) = &self.0 else {
            return true;
        };
        let (excluded_entries, included_entries): (Vec<_>, Vec<_>) =
            entries.iter().partition(|entry| entry.is_excluded);
        let has_match =
            |list: &[&OfferEntry]| list.iter().any(|entry| entry.tools.has_tool(name, origin));
        let is_included = if included_entries.is_empty() {
            !excluded_entries.is_empty()
        } else {
            has_match(&included_entries)
        };
        is_included && !has_match(&excluded_entries)
    }

    /// Returns whether every tool is offered.
    pub fn is_all(&self) -> bool {
        self.0.is_none()
    }
}

impl ToolSelector {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "@builtin" => Some(Self::Builtin),
            "@servers" => Some(Self::Servers),
            name => ToolNamePattern::parse(name).map(Self::Named),
        }
    }

    fn has_tool(&self, name: &str, origin: &ToolOrigin) -> bool {
        match self {
            Self::Builtin => !origin.is_mcp() && BUILT_IN_NAMES.iter().any(|tool| tool == name),
            Self::Servers => origin.is_mcp(),
            Self::Named(pattern) => pattern.matches(name),
        }
    }
}

impl fmt::Debug for OfferedTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(entries) => f.debug_list().entries(entries.iter()).finish(),
            None => f.write_str("all"),
        }
    }
}

impl<'de> Deserialize<'de> for OfferedTools {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let parsed_entries = texts.iter().map(|text| {
            let excluded_text = text.strip_prefix('!');
            let tools = ToolSelector::parse(excluded_text.unwrap_or(text)).ok_or_else(|| {
                let expected_form =
                    "a tool name, a name prefix with '*', '@builtin' or '@servers', optionally \
                    with '!' before it";
                Error::invalid_value(Unexpected::Str(text), &expected_form)
            })?;
            Ok(OfferEntry {
                is_excluded: excluded_text.is_some(),
                tools,
            })
        });
        let entries: Vec<_> = parsed_entries.collect::<Result<_, _>>()?;
        Ok(Self(Some(entries.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn offered_names(list: &str) -> Vec<&'static str> {
        let text = format!("[mcp]\ntools = {list}");
        let tools = Config::parse(&text, "pillion.toml").unwrap().mcp.tools;
        let server = ToolOrigin::Mcp {
            server_label: "far".to_owned(),
            server_url: String::new(),
        };
        let native = ToolOrigin::Native;
        let registered_tools = [
            ("calculator", &native),
            ("remember", &native),
            ("orders", &native),
            ("far_echo", &server),
            ("calculator", &server),
        ];
        let admitted_tools = registered_tools
            .into_iter()
            .filter(|(name, origin)| tools.is_offered(name, origin));
        admitted_tools.map(|(name, _)| name).collect()
    }

    #[test]
    fn one_setting_selects_the_tools_for_mcp_clients() {
        assert!(Config::default().mcp.tools.is_all());
        for (list, expected) in [
            (
                "['*']",
                &["calculator", "remember", "orders", "far_echo", "calculator"][..],
            ),
            ("[]", &[]),
            ("['@servers']", &["far_echo", "calculator"]),
            ("['!@builtin']", &["orders", "far_echo", "calculator"]),
            (
                "['@builtin', 'far_*', '!remember']",
                &["calculator", "far_echo"],
            ),
            ("['orders']", &["orders"]),
            ("['!*']", &[]),
        ] {
            assert_eq!(offered_names(list), expected, "{list}");
        }
    }

    #[test]
    fn an_invalid_selection_of_tools_is_rejected() {
        for entry in ["", "!", "a b", "@workers", "a*b", "!!a"] {
            let text = format!("[mcp]\ntools = ['{entry}']");
            let error = Config::parse(&text, "c.toml").unwrap_err().to_string();
            assert!(error.contains("mcp.tools"), "{error}");
            assert!(error.contains("'@builtin'"), "{error}");
        }
    }
}
