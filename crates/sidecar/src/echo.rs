//! Prepares client input for error messages.

/// Maximum length of client input in an error message, in characters.
const MAX_ECHO_LEN: usize = 128;

/// Returns the start of client input, for an error message.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(MAX_ECHO_LEN).collect()
}

/// Returns whether a character changes the direction of the text around it.
pub(crate) fn is_bidi(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
