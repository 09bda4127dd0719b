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
    allowed_tools: AllowedTools,
    model: Option<Arc<ModelConfig>>,
    /// The only user whose data the client may see, if restricted.
    only_user: Option<Arc<str>>,
    /// The filter that selects the tools for MCP clients. For other callers, the filter selects
    /// every tool.
    offered_tools: OfferedTools,
}

impl Visibility {
    /// Creates the visibility of a token with this list of tools.
    pub fn new(allowed_tools: AllowedTools) -> Self {
        Self {
            allowed_tools,
            ..Self::default()
        }
    }

    /// Restricts the visibility to the data of this user, if set.
    pub fn restrict_to_user(mut self, user: Option<&str>) -> Self {
        self.only_user = user.map(Into::into);
        self
    }

    /// Returns the only user whose data the caller may see, or `None` if the caller may see the
    /// data of all users.
    pub fn only_user(&self) -> Option<&str> {
        self.only_user.as_deref()
    }

    /// Restricts the visibility to what a model may see.
    pub fn for_model(mut self, model: Arc<ModelConfig>) -> Self {
        self.model = Some(model);
        self
    }

    /// Restricts the visibility of an MCP client to the offered tools.
    pub fn restrict_to_offered(mut self, offered_tools: OfferedTools) -> Self {
        self.offered_tools = offered_tools;
        self
    }

    /// Returns the filter for the calls that a tool makes for its client. An offered tool may call
    /// tools that are not offered.
    pub fn filter(&self) -> ToolFilter {
        let visibility = self.clone().restrict_to_offered(OfferedTools::default());
        ToolFilter::new(self.fingerprint(), move |name, origin| {
            visibility.is_name_visible(name, name, origin)
        })
    }

    /// Returns the packs with at least one visible tool. The resources and streams of these packs
    /// are visible as well.
    pub fn packs(&self, packs: &Packs) -> Packs {
        packs.filter_by_tool(|tool| {
            self.is_name_visible(tool.as_str(), tool.as_str(), &ToolOrigin::Native)
        })
    }

    /// Returns whether all tools are visible.
    pub(crate) fn has_all_tools(&self) -> bool {
        self.allowed_tools == AllowedTools::default()
            && self.model.is_none()
            && self.offered_tools.is_all()
    }

    /// Returns a string that is equal for equal sets of visible tools.
    fn fingerprint(&self) -> String {
        let model = self.model.as_ref().map(|model| {
            let tools = &model.tools;
            json!([tools.function_calling, tools.mcp, tools.enabled_tools])
        });
        json!({"allowed": self.allowed_tools.to_entry_word(), "model": model}).to_string()
    }

    /// Returns whether the client may see the tool, which the client knows as `client_name`.
    pub fn admits(&self, tool: &RegisteredTool, client_name: &str) -> bool {
        self.is_name_visible(tool.name().as_str(), client_name, tool.origin())
    }

    /// Returns whether the client may see a tool with this origin. `name` is the tool's registered
    /// name; `client_name` is the name that the client uses.
    ///
    /// The tool list of a token is compared only with `name`. The tool list of a model is compared
    /// with `name` and, for a tool that belongs to no server, also with `client_name`, which may be
    /// an alias. For a server's tool, `client_name` may be the name of another server's tool.
    pub fn is_name_visible(&self, name: &str, client_name: &str, origin: &ToolOrigin) -> bool {
        if !self.allowed_tools.admits(name) || !self.offered_tools.is_offered(name, origin) {
            return false;
        }
        let Some(model) = &self.model else {
            return true;
        };
        let alias = Some(client_name).filter(|_| !origin.is_mcp());
        let mut names = [Some(name), alias].into_iter().flatten();
        names.any(|name| model.tools.admit(name, origin).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h2_l3_filters_are_equal_only_if_they_admit_the_same_tools() {
        let of = |list: Option<&str>, model: Option<&str>| {
            let allowed = list.map(|list| AllowedTools::parse_list(list).unwrap());
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
