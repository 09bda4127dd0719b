//! Descriptions of environment variables for error messages.

/// Maximum length of a variable's name in a message, in characters.
const MAX_SHOWN_CHARS: usize = 64;

/// Returns a description, for error messages, of an environment variable that the configuration
/// names. The name is omitted unless it has only capital letters, digits and `_`: by mistake, the
/// configuration may contain a credential in place of the name.
///
/// ```
/// use pillion_core::variable::describe;
///
/// assert_eq!(describe("MY_TOKEN"), "the environment variable MY_TOKEN");
/// assert!(!describe("sk-3141592653").contains("sk-"));
/// ```
#[must_use]
pub fn describe(name: &str) -> String {
    let is_usual = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    if name.len() <= MAX_SHOWN_CHARS && name.bytes().all(is_usual) {
        return format!("the environment variable {name}");
    }
    "the environment variable that the key names (is the value a credential?)".to_owned()
}
