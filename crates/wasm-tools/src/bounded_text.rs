use std::fmt::{self, Write};

/// Maximum length of an error message, in bytes. A component can choose names in the message.
pub(crate) const MAX_MESSAGE_BYTES: usize = 1024;

/// The marker at the end of a truncated text.
const ELLIPSIS: &str = "...";

/// A text with a maximum length; the rest is not stored.
#[derive(Debug)]
pub(crate) struct BoundedText {
    text: String,
    max_bytes: usize,
    is_truncated: bool,
}

impl BoundedText {
    /// Creates an empty text with a maximum length in bytes, not counting the truncation marker.
    pub(crate) fn with_limit(max_bytes: usize) -> Self {
        Self {
            text: String::new(),
            max_bytes,
            is_truncated: false,
        }
    }

    /// Returns the text, with a marker if the text was truncated.
    pub(crate) fn into_text(mut self) -> String {
        if self.is_truncated {
            self.text.push_str(ELLIPSIS);
        }
        self.text
    }

    /// Returns the text as one line, without control characters.
    pub(crate) fn into_single_line(self) -> String {
        let text = self.into_text().replace(char::is_control, " ");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

impl Write for BoundedText {
    /// Appends `new_text`. Returns an error if the maximum length is exceeded; the beginning of
    /// `new_text` that fits is appended anyway.
    fn write_str(&mut self, new_text: &str) -> fmt::Result {
        let remaining_bytes = self.max_bytes - self.text.len();
        if !self.is_truncated && new_text.len() <= remaining_bytes {
            self.text.push_str(new_text);
            return Ok(());
        }
        if !self.is_truncated {
            self.is_truncated = true;
            let end = (0..=remaining_bytes)
                .rev()
                .find(|end| new_text.is_char_boundary(*end));
            self.text.push_str(&new_text[..end.unwrap_or_default()]);
        }
        Err(fmt::Error)
    }
}

/// Returns the beginning of a text, of at most `max_bytes` bytes, with a marker if the text was
/// truncated.
pub(crate) fn truncate(text: &str, max_bytes: usize) -> String {
    let mut bounded_text = BoundedText::with_limit(max_bytes);
    // Ignores the error that `write_str` returns if the text is truncated.
    let _ = bounded_text.write_str(text);
    bounded_text.into_text()
}

/// Returns the beginning of a text as one line, for lists and terminals.
pub(crate) fn to_single_line(text: &str) -> String {
    let mut bounded_text = BoundedText::with_limit(MAX_MESSAGE_BYTES);
    // Ignores the error that `write_str` returns if the text is truncated.
    let _ = bounded_text.write_str(text);
    bounded_text.into_single_line()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_truncated_between_two_characters() {
        assert_eq!(truncate("four", 4), "four");
        assert_eq!(truncate("fives", 4), "five...");
        assert_eq!(truncate("aüb", 2), "a...");
        assert_eq!(truncate("aüb", 3), "aü...");
    }

    #[test]
    fn nothing_is_appended_after_a_truncation() {
        let mut bounded = BoundedText::with_limit(4);
        let more = "bcdef";
        assert!(write!(bounded, "a{more}").is_err());
        assert!(bounded.write_str("g").is_err());
        assert_eq!(bounded.into_text(), "abcd...");
    }

    #[test]
    fn a_line_has_no_control_characters() {
        assert_eq!(to_single_line("a\u{1b}[2J\n\u{9b}b\u{7}"), "a [2J b");
        assert_eq!(
            to_single_line(&"ü".repeat(MAX_MESSAGE_BYTES)).len(),
            MAX_MESSAGE_BYTES + ELLIPSIS.len()
        );
    }
}
