use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The name of a tool: `^[a-zA-Z_][a-zA-Z0-9_-]*$` (requirement A4). Cheap to clone.
///
/// ```
/// use pillion_core::tool::ToolName;
/// assert!("get-x_2".parse::<ToolName>().is_ok());
/// assert!("9x".parse::<ToolName>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ToolName(Arc<str>);

/// A string that is no tool name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid tool name '{0}': use letters, digits, '_' and '-', starting with a letter or '_'")]
pub struct InvalidToolName(pub String);

impl ToolName {
    /// Takes `name` as a tool name.
    ///
    /// # Errors
    /// [`InvalidToolName`] when it is empty, starts with something other than a letter or
    /// `_`, or holds a character other than ASCII letters, digits, `_` and `-`.
    pub fn new(name: &str) -> Result<Self, InvalidToolName> {
        let mut bytes = name.bytes();
        let starts_well = bytes
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_');
        let goes_on_well =
            bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        if starts_well && goes_on_well {
            Ok(Self(Arc::from(name)))
        } else {
            Err(InvalidToolName(name.to_owned()))
        }
    }

    /// The name as a string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ToolName {
    type Err = InvalidToolName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::new(name)
    }
}

impl TryFrom<String> for ToolName {
    type Error = InvalidToolName;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        Self::new(&name)
    }
}

impl From<ToolName> for String {
    fn from(name: ToolName) -> Self {
        name.as_str().to_owned()
    }
}

/// Lets maps keyed by `ToolName` be asked with a `&str`.
impl Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::ToolName;

    #[test]
    fn a4_names() {
        for good in ["get-x_2", "_", "A", "x9"] {
            assert!(ToolName::new(good).is_ok(), "{good}");
        }
        for bad in ["9x", "a b", "", "-x", "naïve", "a.b", "x\n"] {
            assert!(ToolName::new(bad).is_err(), "{bad}");
        }
    }
}
