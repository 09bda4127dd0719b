//! What a client sent, as far as an answer repeats it.

/// Longest part of what a client sent that an error repeats, in characters.
const LONGEST_ECHO: usize = 128;

/// The start of what a client sent, for an error to repeat.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_ECHO).collect()
}
