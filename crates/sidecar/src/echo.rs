//! What a client sent, as far as an answer repeats it.

/// Longest part of what a client sent that an error repeats, in characters.
const LONGEST_ECHO: usize = 128;

/// The start of what a client sent, for an error to repeat.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_ECHO).collect()
}

/// Returns whether a character changes the direction of the text around it.
pub(crate) fn is_bidi(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
