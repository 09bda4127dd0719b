use std::borrow::{Borrow, Cow};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::sha256_hex;

/// The name of a tool: matches `^[a-zA-Z_][a-zA-Z0-9_-]*$`, with at most
/// [`MAX_LENGTH`](Self::MAX_LENGTH) characters. Cheap to clone.
///
/// Providers that allow only shorter names get the [short form](Self::short).
///
/// ```
/// use pillion_core::tool::ToolName;
/// assert!("get-x_2".parse::<ToolName>().is_ok());
/// assert!("9x".parse::<ToolName>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ToolName(Arc<str>);

/// Length of the hash in a shortened name.
const HASH_LENGTH: usize = 8;

/// Returns a name of `max` characters, which consists of the beginning of `name`, `_` and a hash of
/// `full_name`. `name` must be ASCII and longer than `max` characters.
///
/// ```
/// use pillion_core::tool::shortened_name;
/// assert_eq!(shortened_name("abcdefghijklmn", "abc", 12), "abc_ba7816bf");
/// ```
#[must_use]
pub fn shortened_name(name: &str, full_name: &str, max: usize) -> String {
    let hash = &sha256_hex(full_name)[..HASH_LENGTH];
    format!("{}_{hash}", &name[..max - HASH_LENGTH - 1])
}

/// Error for a string that is not a valid tool name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid tool name '{}': {}", shorten_name(.0), violated_rule(.0))]
pub struct InvalidToolName(pub String);

/// Returns the beginning of a name, for error messages.
fn shorten_name(name: &str) -> String {
    const MAX_SHOWN_CHARS: usize = 64;
    match name.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

/// Returns the rule that a name violates.
fn violated_rule(name: &str) -> String {
    if name.len() > ToolName::MAX_LENGTH {
        return format!("use no more than {} characters", ToolName::MAX_LENGTH);
    }
    "use letters, digits, '_' and '-', starting with a letter or '_'".to_owned()
}

impl ToolName {
    /// Maximum length of a name, in characters: the recommendation of MCP since 2025-11-25
    /// (SEP-986).
    pub const MAX_LENGTH: usize = 128;

    /// Maximum length of the [short form](Self::short), in characters.
    pub const MAX_SHORT_LENGTH: usize = 64;

    /// Number of characters of the name that its [short form](Self::short) contains before the
    /// hash.
    const SHORT_BEGINNING_LENGTH: usize = Self::MAX_SHORT_LENGTH - HASH_LENGTH - 1;

    /// Creates a tool name from `name`.
    ///
    /// # Errors
    /// [`InvalidToolName`] if `name` is empty, starts with a character other than a letter or `_`,
    /// contains a character other than ASCII letters, digits, `_` and `-`, or is too long.
    pub fn new(name: &str) -> Result<Self, InvalidToolName> {
        let mut bytes = name.bytes();
        let is_start = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        let has_valid_start = bytes.next().is_some_and(is_start);
        let has_valid_rest =
            bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        if has_valid_start && has_valid_rest && name.len() <= Self::MAX_LENGTH {
            Ok(Self(Arc::from(name)))
        } else {
            Err(InvalidToolName(name.to_owned()))
        }
    }

    /// Returns the name for providers that accept at most 64 characters, such as OpenAI: this name,
    /// or, if this name is longer, the beginning of this name and a hash of the whole name. A
    /// registry also finds a tool by its short name.
    ///
    /// ```
    /// use pillion_core::tool::ToolName;
    /// let name = ToolName::new(&"x".repeat(65))?;
    /// assert_eq!(name.short().len(), 64);
    /// assert_eq!(ToolName::new("ping")?.short(), "ping");
    /// # Ok::<(), pillion_core::tool::InvalidToolName>(())
    /// ```
    #[must_use]
    pub fn short(&self) -> Cow<'_, str> {
        if self.0.len() <= Self::MAX_SHORT_LENGTH {
            return Cow::Borrowed(&self.0);
        }
        shortened_name(&self.0, &self.0, Self::MAX_SHORT_LENGTH).into()
    }

    /// Returns whether the name is too long for some providers and `short` is its short form.
    pub(crate) fn has_short_name(&self, short: &str) -> bool {
        // The lengths are compared first, because comparing lengths is faster than computing the
        // hash of the short form.
        self.0.len() > Self::MAX_SHORT_LENGTH
            && short
                .as_bytes()
                .starts_with(&self.0.as_bytes()[..Self::SHORT_BEGINNING_LENGTH])
            && self.short() == short
    }

    /// Returns the name as a string.
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

/// Allows lookups by `&str` in maps keyed by `ToolName`.
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

    #[test]
    fn a4_a_name_has_no_more_than_128_characters() {
        assert!(ToolName::new(&"x".repeat(128)).is_ok());
        let error = |name: &str| ToolName::new(name).unwrap_err().to_string();
        let start = "x".repeat(64);
        let expected = format!("Invalid tool name '{start}...': use no more than 128 characters");
        assert_eq!(error(&"x".repeat(129)), expected);
        // The error is short, however long the name is.
        assert!(error(&"\u{e9}".repeat(100_000)).len() < 300);
    }
}
