//! Makes text from a server safe for a terminal: hidden characters are escaped.

use pillion_gateway::pins::visible;

/// Escapes hidden characters, such as escape sequences; line breaks and tabs remain.
pub(super) fn escape(text: &str) -> String {
    visible(&text.replace("\r\n", "\n"))
}

/// Joins the lines of a text into one line.
pub(super) fn to_one_line(text: &str) -> String {
    let lines = text.split(['\n', '\r', '\t']).map(str::trim);
    let non_empty_lines = lines.filter(|line| !line.is_empty());
    escape(&non_empty_lines.collect::<Vec<_>>().join(" "))
}

/// Returns the first line of a text, truncated to `max_chars` characters.
pub(super) fn summarize(text: &str, max_chars: usize) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    truncate(&to_one_line(line.unwrap_or_default()), max_chars)
}

/// Truncates a text to `max_chars` characters, with an ellipsis.
pub(super) fn truncate(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", text[..end].trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_escape_sequence_gets_through() {
        assert_eq!(
            escape("a\x1b[2Jb\r\n\tc\u{9b}d\u{202e}\u{200b}\u{e0041}"),
            "a\\u{1b}[2Jb\n\tc\\u{9b}d\\u{202e}\\u{200b}\\u{e0041}"
        );
        assert_eq!(to_one_line(" a \r\n\n b\x07"), "a b\\u{7}");
        assert_eq!(summarize("\n  Rolls dice.\nMore", 80), "Rolls dice.");
        assert_eq!(summarize("äöü äöü", 4), "äöü...");
    }
}
