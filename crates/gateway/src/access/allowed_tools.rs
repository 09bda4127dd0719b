use std::sync::Arc;

use pillion_core::tool::ToolNamePattern;

/// The tools that a token may see and call, by their registered names; all tools by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedTools(Option<Arc<[ToolNamePattern]>>);

/// The list of tools in a token's entry (`tools=`) is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected tool names, or prefixes of tool names followed by '*', separated by commas without \
     spaces"
)]
pub struct BadToolPattern;

impl AllowedTools {
    const ENTRY_PREFIX: &'static str = "tools=";

    /// Parses a word of a token's entry, such as `tools=get_time,far_*`. Returns `None` for a word
    /// that does not begin with `tools=`.
    ///
    /// # Errors
    /// An entry is neither a tool name nor a prefix followed by `*`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Result<Self, BadToolPattern>> {
        word.strip_prefix(Self::ENTRY_PREFIX).map(Self::parse_list)
    }

    /// Parses a list of tools such as `get_time,far_*`.
    ///
    /// # Errors
    /// An entry is neither a tool name nor a prefix followed by `*`.
    pub fn parse_list(list: &str) -> Result<Self, BadToolPattern> {
        let patterns: Option<Vec<_>> = list.split(',').map(ToolNamePattern::parse).collect();
        Ok(Self(Some(patterns.ok_or(BadToolPattern)?.into())))
    }

    /// Returns the list of tools as a word for a token's entry, such as `tools=get_time`; `None`
    /// for all tools.
    #[must_use]
    pub fn to_entry_word(&self) -> Option<String> {
        let patterns: Vec<_> = self.0.as_ref()?.iter().map(ToString::to_string).collect();
        Some(format!("{}{}", Self::ENTRY_PREFIX, patterns.join(",")))
    }

    /// Returns whether the tool registered under this name is allowed.
    #[must_use]
    pub fn admits(&self, name: &str) -> bool {
        let Some(patterns) = &self.0 else {
            return true;
        };
        patterns.iter().any(|pattern| pattern.matches(name))
    }

    /// Returns whether every tool that `other` allows is allowed, whether or not such a tool
    /// exists.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        let Some(patterns) = &self.0 else {
            return true;
        };
        let Some(other_patterns) = &other.0 else {
            return false;
        };
        let is_included = |other_pattern: &ToolNamePattern| {
            patterns
                .iter()
                .any(|pattern| includes(pattern, other_pattern))
        };
        other_patterns.iter().all(is_included)
    }
}

/// Returns whether every name that matches `other` matches `pattern`.
fn includes(pattern: &ToolNamePattern, other: &ToolNamePattern) -> bool {
    match (pattern, other) {
        (_, ToolNamePattern::Exact(name)) => pattern.matches(name.as_str()),
        (ToolNamePattern::Prefix(prefix), ToolNamePattern::Prefix(other_prefix)) => {
            other_prefix.starts_with(prefix.as_str())
        }
        (ToolNamePattern::Exact(_), ToolNamePattern::Prefix(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l3_a_tool_list_admits_names_and_prefixes() {
        let few = AllowedTools::parse_list("get_time,far_*").unwrap();
        for name in ["get_time", "far_roll", "far_"] {
            assert!(few.admits(name), "{name}");
        }
        for name in ["get_times", "far", "Far_x", ""] {
            assert!(!few.admits(name), "{name}");
        }
        assert!(AllowedTools::default().admits("anything"));
        assert!(AllowedTools::parse_list("*").unwrap().admits("anything"));
        let word = few.to_entry_word().unwrap();
        assert_eq!(word, "tools=get_time,far_*");
        assert_eq!(AllowedTools::parse(&word), Some(Ok(few)));
        assert_eq!(AllowedTools::parse("user=alice"), None);
        assert_eq!(AllowedTools::default().to_entry_word(), None);
    }

    #[test]
    fn l3_a_tool_list_includes_no_wider_list() {
        let list = |text: &str| match text {
            "" => AllowedTools::default(),
            text => AllowedTools::parse_list(text).unwrap(),
        };
        for (wide, narrow) in [
            ("", ""),
            ("", "*"),
            ("", "get_time"),
            ("*", "far_*"),
            ("*", "*"),
            ("far_*", "far_*,far_roll"),
            ("far_*", "far_r*"),
            ("get_time,far_*", "far_roll,get_time"),
        ] {
            assert!(list(wide).includes(&list(narrow)), "{wide} {narrow}");
        }
        for (narrow, wide) in [
            ("*", ""),
            ("get_time", ""),
            ("far_*", "*"),
            ("far_r*", "far_*"),
            ("far_roll", "far_roll*"),
            ("far_*", "far_roll,get_time"),
        ] {
            assert!(!list(narrow).includes(&list(wide)), "{narrow} {wide}");
        }
    }

    #[test]
    fn l3_an_invalid_tool_list_is_rejected() {
        for list in [
            "", ",", "a,", "a, b", "a*b", "*a", "**", "9x", "far/*", "ä*",
        ] {
            let parsed = AllowedTools::parse_list(list);
            assert_eq!(parsed, Err(BadToolPattern), "{list}");
        }
    }
}
