//! Text from clients, and its preparation for error messages.

/// Maximum length of client input in an error message, in characters.
const MAX_INPUT_CHARS: usize = 128;

/// Returns the start of client input, for an error message.
pub(crate) fn truncate_input(text: &str) -> String {
    text.chars().take(MAX_INPUT_CHARS).collect()
}

/// Returns whether a character changes the direction of the text around it.
pub(crate) fn is_bidi(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
