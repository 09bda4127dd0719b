//! Makes text from a server safe for a terminal: escape sequences are removed.

/// Replaces control characters, except line breaks and tabs, and characters that change the text
/// direction.
pub(super) fn text(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            c if is_harmless(c) => c,
            _ => char::REPLACEMENT_CHARACTER,
        })
        .collect()
}

/// Joins the lines of a text.
pub(super) fn one_line(text: &str) -> String {
    let words = text.split(['\n', '\r', '\t']).map(str::trim);
    let line = words.filter(|part| !part.is_empty());
    self::text(&line.collect::<Vec<_>>().join(" "))
}

/// Returns the first line of a text, truncated to `max_chars` characters.
pub(super) fn summary(text: &str, max_chars: usize) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    truncate(&one_line(line.unwrap_or_default()), max_chars)
}

/// Truncates a text to `max_chars` characters, with an ellipsis.
pub(super) fn truncate(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", text[..end].trim_end()),
    }
}

fn is_harmless(c: char) -> bool {
    let controls_line = c.is_control() || pillion_core::is_control_character(c);
    !controls_line && !pillion_core::is_bidi_control(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_escape_sequence_gets_through() {
        assert_eq!(
            text("a\x1b[2Jb\r\n\tc\u{9b}d\u{202e}"),
            "a\u{fffd}[2Jb\u{fffd}\n\tc\u{fffd}d\u{fffd}"
        );
        assert_eq!(one_line(" a \r\n\n b\x07"), "a b\u{fffd}");
        assert_eq!(summary("\n  Rolls dice.\nMore", 80), "Rolls dice.");
        assert_eq!(summary("äöü äöü", 4), "äöü...");
    }
}
