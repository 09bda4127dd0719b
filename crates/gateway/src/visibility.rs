//! The tools that a caller may see.

use std::sync::Arc;

use pillion_core::capability::ModelConfig;
use pillion_core::pack::Packs;
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::{ToolFilter, ToolOrigin};
use serde_json::json;

use crate::access::AllowedTools;
use pillion_config::OfferedTools;

/// The tools that a client may see and call. All APIs use this single check, for lists and for
/// calls. A hidden tool does not exist for the client.
#[derive(Debug, Clone, Default)]
pub struct Visibility {
    allowed: AllowedTools,
    model: Option<Arc<ModelConfig>>,
    /// The only user whose data the client may see, if restricted.
    confined_to: Option<Arc<str>>,
    /// The filter of the tools that MCP clients are offered; every tool for other callers.
    offered: OfferedTools,
}

impl Visibility {
    /// Creates the visibility of a token with this list of tools.
    pub fn new(allowed: AllowedTools) -> Self {
        Self {
            allowed,
            ..Self::default()
        }
    }

    /// Restricts the visibility to the data of this user, if set.
    pub fn confined_to(self, user: Option<&str>) -> Self {
        Self {
            confined_to: user.map(Into::into),
            ..self
        }
    }

    /// Returns the only user whose data may be seen, if restricted.
    pub fn only_user(&self) -> Option<&str> {
        self.confined_to.as_deref()
    }

    /// Restricts the visibility to what a model may see.
    pub fn for_model(self, model: Arc<ModelConfig>) -> Self {
        Self {
            model: Some(model),
            ..self
        }
    }

    /// Restricts the visibility of an MCP client to the offered tools.
    pub fn restrict_to_offered(self, offered: OfferedTools) -> Self {
        Self { offered, ..self }
    }

    /// Returns the filter for the calls that a tool makes for its client. An offered tool may call
    /// tools that are not offered.
    pub fn filter(&self) -> ToolFilter {
        let this = Self {
            offered: OfferedTools::default(),
            ..self.clone()
        };
        ToolFilter::new(self.fingerprint(), move |name, origin| {
            this.is_name_visible(name, name, origin)
        })
    }

    /// Returns the packs of which at least one tool is visible. Their resources and streams are
    /// visible as well.
    pub fn packs(&self, packs: &Packs) -> Packs {
        packs.filter_by_tool(|tool| {
            self.is_name_visible(tool.as_str(), tool.as_str(), &ToolOrigin::Native)
        })
    }

    /// Returns whether all tools are visible.
    pub(crate) fn is_all(&self) -> bool {
        self.allowed == AllowedTools::default() && self.model.is_none() && self.offered.is_all()
    }

    /// Returns a string that is equal for equal sets of visible tools.
    fn fingerprint(&self) -> String {
        let model = self.model.as_ref().map(|model| {
            let tools = &model.tools;
            json!([tools.function_calling, tools.mcp, tools.enabled_tools])
        });
        json!({"allowed": self.allowed.word(), "model": model}).to_string()
    }

    /// Returns whether the client, which knows the tool as `known_as`, may see it.
    pub fn admits(&self, tool: &RegisteredTool, known_as: &str) -> bool {
        self.is_name_visible(tool.name().as_str(), known_as, tool.origin())
    }

    /// Returns whether the client may see a tool with this origin, the registered name `name`, and
    /// the name `known_as` for the client. The lists of tokens and models match only `name`,
    /// because another server may use the name that the tool has on its server. For a model, an
    /// alias of a tool that belongs to no server matches as well.
    pub fn is_name_visible(&self, name: &str, known_as: &str, origin: &ToolOrigin) -> bool {
        if !self.allowed.admit(name) || !self.offered.admit(name, origin) {
            return false;
        }
        let Some(model) = &self.model else {
            return true;
        };
        let known_as = Some(known_as).filter(|_| !origin.is_mcp());
        let mut names = [Some(name), known_as].into_iter().flatten();
        names.any(|name| model.tools.admit(name, origin).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h2_l3_filters_are_equal_only_if_they_admit_the_same_tools() {
        let of = |list: Option<&str>, model: Option<&str>| {
            let allowed = list.map(|list| AllowedTools::listed(list).unwrap());
            let visibility = Visibility::new(allowed.unwrap_or_default());
            match model.map(|model| ModelConfig::from_json(model).unwrap()) {
                Some(model) => visibility.for_model(Arc::new(model)).filter(),
                None => visibility.filter(),
            }
        };
        let calls = r#"{"id": "a", "tools": {"function_calling": true}}"#;
        let one = r#"{"id": "a", "tools": {"function_calling": true, "enabled_tools": ["x"]}}"#;
        let mcp = r#"{"id": "a", "tools": {"function_calling": true, "mcp": true}}"#;
        let all = [
            of(None, None),
            of(Some("x"), None),
            of(Some("x*"), None),
            of(None, Some(calls)),
            of(None, Some(one)),
            of(None, Some(mcp)),
            of(Some("x"), Some(calls)),
        ];
        for (index, filter) in all.iter().enumerate() {
            assert!(all.iter().skip(index + 1).all(|other| other != filter));
        }
        let other_name = calls.replace("\"a\"", "\"b\"");
        assert_eq!(of(None, Some(calls)), of(None, Some(&other_name)));
    }
}
