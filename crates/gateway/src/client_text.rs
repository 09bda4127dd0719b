//! Shortens text from clients for error messages.

/// Maximum length of client input in an error message, in characters.
const MAX_INPUT_CHARS: usize = 128;

/// Returns the start of client input, for an error message.
pub fn truncate_input(text: &str) -> String {
    text.chars().take(MAX_INPUT_CHARS).collect()
}
