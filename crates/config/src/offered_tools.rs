use std::fmt;
use std::sync::{Arc, LazyLock};

use pillion_core::tool::{ToolNamePattern, ToolOrigin};
use serde::de::{Deserialize, Deserializer, Error, Unexpected};

use super::network_tools;

/// `mcp.tools`: the tools that are offered to MCP clients; every tool by default.
///
/// An entry is a tool's name, a prefix of names with `*` after it, `@builtin` for the built-in
/// tools, or `@servers` for the tools of MCP servers. An entry with `!` before it excludes tools; a
/// list of only such entries offers every other tool.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OfferedTools(Option<Arc<[Entry]>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    is_excluded: bool,
    tools: Tools,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Tools {
    Builtin,
    Servers,
    Named(ToolNamePattern),
}

/// The names of the built-in tools.
static BUILT_IN: LazyLock<Vec<String>> = LazyLock::new(|| {
    let tools = pillion_builtins::all();
    let names = tools
        .iter()
        .map(|tool| tool.definition().name().to_string());
    let others = network_tools::NAMES
        .iter()
        .chain(&["search_memory", "remember", "forget"]);
    names.chain(others.map(|name| (*name).to_owned())).collect()
});

impl OfferedTools {
    /// Returns whether the tool registered under `name` is offered.
    pub fn admit(&self, name: &str, origin: &ToolOrigin) -> bool {
        let Some(entries) = &self.0 else {
            return true;
        };
        let (out, offered): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.is_excluded);
        let is_one_of =
            |list: &[&Entry]| list.iter().any(|entry| entry.tools.contain(name, origin));
        let is_offered = if offered.is_empty() {
            !out.is_empty()
        } else {
            is_one_of(&offered)
        };
        is_offered && !is_one_of(&out)
    }

    /// Returns whether every tool is offered.
    pub fn is_all(&self) -> bool {
        self.0.is_none()
    }
}

impl Tools {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "@builtin" => Some(Self::Builtin),
            "@servers" => Some(Self::Servers),
            name => ToolNamePattern::parse(name).map(Self::Named),
        }
    }

    fn contain(&self, name: &str, origin: &ToolOrigin) -> bool {
        match self {
            Self::Builtin => !origin.is_mcp() && BUILT_IN.iter().any(|own| own == name),
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
        let entries = texts.iter().map(|text| {
            let excluded = text.strip_prefix('!');
            let tools = Tools::parse(excluded.unwrap_or(text)).ok_or_else(|| {
                let expected =
                    "a tool name, a name prefix with '*', '@builtin' or '@servers', optionally \
                    with '!' before it";
                Error::invalid_value(Unexpected::Str(text), &expected)
            })?;
            Ok(Entry {
                is_excluded: excluded.is_some(),
                tools,
            })
        });
        let entries: Vec<_> = entries.collect::<Result<_, _>>()?;
        Ok(Self(Some(entries.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn offered(list: &str) -> Vec<&'static str> {
        let text = format!("[mcp]\ntools = {list}");
        let tools = Config::parse(&text, "pillion.toml").unwrap().mcp.tools;
        let server = ToolOrigin::Mcp {
            server_label: "far".to_owned(),
            server_url: String::new(),
        };
        let own = ToolOrigin::Native;
        let all = [
            ("calculator", &own),
            ("remember", &own),
            ("orders", &own),
            ("far_echo", &server),
            ("calculator", &server),
        ];
        let admitted = all
            .into_iter()
            .filter(|(name, origin)| tools.admit(name, origin));
        admitted.map(|(name, _)| name).collect()
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
            assert_eq!(offered(list), expected, "{list}");
        }
    }

    #[test]
    fn an_invalid_selection_of_tools_is_rejected() {
        for entry in ["", "!", "a b", "@workers", "a*b", "!!a"] {
            let text = format!("[mcp]\ntools = ['{entry}']");
            let error = Config::parse(&text, "pillion.toml")
                .unwrap_err()
                .to_string();
            assert!(error.contains("mcp.tools"), "{error}");
            assert!(error.contains("'@builtin'"), "{error}");
        }
    }
}
