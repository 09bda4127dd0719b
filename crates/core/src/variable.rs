//! Environment variables in messages.

/// Maximum length of a variable's name in a message, in characters.
const MAX_SHOWN_CHARS: usize = 64;

/// Returns a variable that the configuration names, for a message. The name is omitted unless it
/// has only capital letters, digits and `_`: the configuration may have a credential in place of
/// the name.
///
/// ```
/// use pillion_core::variable::shown;
///
/// assert_eq!(shown("MY_TOKEN"), "the environment variable MY_TOKEN");
/// assert!(!shown("sk-3141592653").contains("sk-"));
/// ```
#[must_use]
pub fn shown(name: &str) -> String {
    let is_usual = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    if name.len() <= MAX_SHOWN_CHARS && name.bytes().all(is_usual) {
        return format!("the environment variable {name}");
    }
    "the environment variable that the key names (is the value a credential?)".to_owned()
}
