//! Quotes texts for shells, PHP and `.env` files, for commands and code to copy.

use pillion_core::is_hidden;

/// Returns whether no shell and no `.env` file treats a character of the text specially.
fn is_plain(text: &str) -> bool {
    let is_plain_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@%+,".contains(&byte);
    !text.is_empty() && text.bytes().all(is_plain_byte)
}

/// Returns whether a character of the text is not visible where the text is shown.
pub(crate) fn has_hidden_characters(text: &str) -> bool {
    text.chars()
        .any(|character| character.is_control() || is_hidden(character))
}

/// Returns the text as one word of a POSIX shell.
pub(crate) fn quote_shell(text: &str) -> String {
    if is_plain(text) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Returns the text as a string literal of PHP. Hidden and control characters are escaped.
pub(crate) fn quote_php(text: &str) -> String {
    if !has_hidden_characters(text) {
        return format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"));
    }
    let mut literal = "\"".to_owned();
    for character in text.chars() {
        match character {
            '\n' => literal.push_str(r"\n"),
            '"' | '\\' | '$' => literal.extend(['\\', character]),
            _ if character.is_control() || is_hidden(character) => {
                literal.push_str(&format!("\\u{{{:x}}}", u32::from(character)));
            }
            _ => literal.push(character),
        }
    }
    literal + "\""
}

/// Returns the text as a value in a `.env` file.
pub(crate) fn quote_dotenv(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let escaped = text.replace('\\', r"\\").replace('"', r#"\""#);
    format!("\"{}\"", escaped.replace('$', r"\$"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_quoted_for_each_language() {
        let path = "/run/it's \"$x\"\\p.sock";
        assert_eq!(quote_shell(path), r#"'/run/it'\''s "$x"\p.sock'"#);
        assert_eq!(quote_php(path), r#"'/run/it\'s "$x"\\p.sock'"#);
        assert_eq!(quote_dotenv(path), r#""/run/it's \"\$x\"\\p.sock""#);
        assert_eq!(quote_php("$a\n\"\u{202e}"), r#""\$a\n\"\u{202e}""#);
        for text in ["", "a b", "~/x", "a;b", "a\nb"] {
            assert_ne!(quote_shell(text), text);
        }
        assert_eq!(quote_shell("/run/a-b.sock"), "/run/a-b.sock");
    }
}
