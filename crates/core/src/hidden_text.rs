//! Characters that a person does not see, or sees at another position.

use std::borrow::Cow;
use std::fmt::Write;

use crate::is_bidi_control;

/// Returns whether a character is a tag character or a variation selector: both can encode invisible
/// ASCII letters.
#[must_use]
pub fn is_tag_character(c: char) -> bool {
    matches!(c, '\u{e0000}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Returns whether a character is invisible. Excludes U+200C, U+200D and the variation selectors of
/// emoji, which occur in normal text.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}'
    )
}

/// Returns whether a character controls a terminal or a line: C0 and C1 controls, and the line and
/// paragraph separators of Unicode. Line feeds, carriage returns and tabs do not count.
#[must_use]
pub fn is_control_character(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\r' | '\t')) || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Returns whether a character is invisible, controls a terminal, or is displayed at another
/// position. Line feeds and tabs do not count.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    is_tag_character(c)
        || is_bidi_control(c)
        || is_invisible(c)
        || is_control_character(c)
        || c == '\r'
}

/// Escapes hidden characters, line breaks and tabs, so that the text is one line that cannot
/// imitate other lines or control a terminal.
///
/// ```
/// let line = pillion_core::escape_line("a\nINFO forged \u{1b}[2J\u{202e}");
/// assert_eq!(line, r"a\nINFO forged \u{1b}[2J\u{202e}");
/// ```
#[must_use]
pub fn escape_line(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte);
    if text.bytes().all(is_plain) || !text.chars().any(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Writing to a string cannot fail.
        let _ = match c {
            '\n' | '\r' | '\t' => write!(line, "{}", c.escape_default()),
            c if is_hidden(c) => write!(line, "{}", c.escape_unicode()),
            c => line.write_char(c),
        };
    }
    Cow::Owned(line)
}

fn is_escaped(c: char) -> bool {
    is_hidden(c) || matches!(c, '\n' | '\t')
}

/// Returns the beginning of a text that has at most this many bytes, for a log or an event.
///
/// ```
/// assert_eq!(pillion_core::truncated("an ü", 4), "an ");
/// ```
#[must_use]
pub fn truncated(text: &str, max_bytes: usize) -> &str {
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
    fn every_control_character_is_escaped() {
        let all = (0..=0x0010_ffff).filter_map(char::from_u32);
        for c in all.filter(|c| c.is_control() || is_bidi_control(*c)) {
            let text = format!("a{c}b");
            let line = escape_line(&text);
            assert!(!line.chars().any(char::is_control), "{:?}", c);
            assert!(!line.contains(c), "{c:?}");
        }
        for c in ['\u{2028}', '\u{2029}', '\u{200b}', '\u{e0041}', '\u{feff}'] {
            assert!(!escape_line(&format!("a{c}b")).contains(c), "{c:?}");
        }
        for plain in ["", "text", "Größe 👩\u{200d}🚀", r"a\nb"] {
            assert!(matches!(escape_line(plain), Cow::Borrowed(_)), "{plain}");
        }
    }
}
