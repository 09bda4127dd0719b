use std::fmt;

use super::ToolName;

/// The name of a tool, or a prefix of tool names followed by `*`.
///
/// ```
/// use pillion_core::tool::ToolNamePattern;
/// let pattern = ToolNamePattern::parse("far_*").unwrap();
/// assert!(pattern.matches("far_roll") && !pattern.matches("roll"));
/// assert!(ToolNamePattern::parse("a*b").is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolNamePattern {
    /// The tool with exactly this name.
    Exact(ToolName),
    /// The tools whose names begin with this text; an empty text matches all tools.
    Prefix(String),
}

impl ToolNamePattern {
    /// Parses a name, or a prefix followed by `*`. Returns `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let Some(prefix) = text.strip_suffix('*') else {
            return ToolName::new(text).ok().map(Self::Exact);
        };
        // A prefix of a tool name is itself a valid tool name.
        let is_valid = prefix.is_empty() || ToolName::new(prefix).is_ok();
        is_valid.then(|| Self::Prefix(prefix.to_owned()))
    }

    /// Returns whether the pattern matches this name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Exact(tool) => tool.as_str() == name,
            Self::Prefix(prefix) => name.starts_with(prefix),
        }
    }
}

impl fmt::Display for ToolNamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => write!(f, "{name}"),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}
