//! Detects invisible characters, and characters that change how a text is displayed.

use std::borrow::Cow;
use std::fmt::Write;

use crate::is_bidi_control;

/// Returns whether a character is a tag character or a variation selector: both can encode invisible
/// ASCII letters.
#[must_use]
pub fn is_tag_character(character: char) -> bool {
    matches!(character, '\u{e0000}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Returns whether a character is invisible. Excludes U+200C, U+200D and the variation selectors of
/// emoji, which occur in normal text.
#[must_use]
pub fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}'
    )
}

/// Returns whether a character is a C0 or C1 control character, or the line or paragraph separator
/// of Unicode. Line feeds, carriage returns and tabs do not count.
#[must_use]
pub fn is_control_character(character: char) -> bool {
    (character.is_control() && !matches!(character, '\n' | '\r' | '\t'))
        || matches!(character, '\u{2028}' | '\u{2029}')
}

/// Returns whether a character is invisible, controls a terminal, or changes the display order of
/// the text. Line feeds and tabs do not count; carriage returns do.
#[must_use]
pub fn is_hidden(character: char) -> bool {
    is_tag_character(character)
        || is_bidi_control(character)
        || is_invisible(character)
        || is_control_character(character)
        || character == '\r'
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
    for character in text.chars() {
        // Writing to a string cannot fail.
        let _ = match character {
            '\n' | '\r' | '\t' => write!(line, "{}", character.escape_default()),
            character if is_hidden(character) => write!(line, "{}", character.escape_unicode()),
            character => line.write_char(character),
        };
    }
    Cow::Owned(line)
}

fn is_escaped(character: char) -> bool {
    is_hidden(character) || matches!(character, '\n' | '\t')
}

/// Truncates a text to a maximum number of bytes, for a log or an event.
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
        for character in
            all.filter(|character| character.is_control() || is_bidi_control(*character))
        {
            let text = format!("a{character}b");
            let line = escape_line(&text);
            assert!(!line.chars().any(char::is_control), "{:?}", character);
            assert!(!line.contains(character), "{character:?}");
        }
        for character in ['\u{2028}', '\u{2029}', '\u{200b}', '\u{e0041}', '\u{feff}'] {
            assert!(
                !escape_line(&format!("a{character}b")).contains(character),
                "{character:?}"
            );
        }
        for plain in ["", "text", "Größe 👩\u{200d}🚀", r"a\nb"] {
            assert!(matches!(escape_line(plain), Cow::Borrowed(_)), "{plain}");
        }
    }
}
