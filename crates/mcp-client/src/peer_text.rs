//! Limits the length of texts that other parties sent, in errors, logs, events and listings.

use std::borrow::Cow;

/// Maximum length of a server's text in an error, in bytes.
pub const MAX_ERROR_TEXT_BYTES: usize = 4 * 1024;

/// Maximum length of a URI, a name or a cursor that identifies an entry of a list, in bytes.
pub const MAX_IDENTIFIER_BYTES: usize = 8 * 1024;

/// The truncation marker at the end of a shortened text.
pub(crate) const SHORTENED_MARK: &str = "... (shortened)";

/// Returns `text` if it has at most `max_bytes` bytes, or else the beginning of `text` and a
/// truncation marker, together at most `max_bytes` bytes.
///
/// ```
/// use pillion_mcp_client::shortened;
/// assert_eq!(shortened("no disk", 20), "no disk");
/// assert_eq!(shortened(&"ü".repeat(100), 20), "üü... (shortened)");
/// ```
#[must_use]
pub fn shortened(text: &str, max_bytes: usize) -> Cow<'_, str> {
    if text.len() <= max_bytes {
        return Cow::Borrowed(text);
    }
    let start = truncate(text, max_bytes.saturating_sub(SHORTENED_MARK.len()));
    Cow::Owned(format!("{start}{SHORTENED_MARK}"))
}

/// Shortens an owned text like [`shortened`].
pub(crate) fn shorten(text: String, max_bytes: usize) -> String {
    match shortened(&text, max_bytes) {
        Cow::Borrowed(_) => text,
        Cow::Owned(short) => short,
    }
}

/// Returns the longest beginning of `text` with at most `max_bytes` bytes.
pub(crate) fn truncate(text: &str, max_bytes: usize) -> &str {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_shortened_to_whole_characters() {
        for text in ["x", "ü", "字", "😀", "\u{1b}"] {
            for count in [0, 1, 5, 30, 1_000, 100_000] {
                let text = text.repeat(count);
                let short = shortened(&text, 64);
                assert!(short.len() <= 64, "{short}");
                if text.len() <= 64 {
                    assert_eq!(short, text);
                    continue;
                }
                let start = short.strip_suffix(SHORTENED_MARK).unwrap();
                assert!(text.starts_with(start) && start.len() > 40, "{short}");
            }
        }
    }
}
