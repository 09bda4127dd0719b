//! Converts text from web pages to plain text without markup and hidden characters.

use std::borrow::Cow;

/// HTML elements that occur in titles and snippets. A `<` before any other text is kept: in
/// `Vec<String>`, the `<` is not markup.
const HTML_ELEMENTS: [&str; 62] = [
    "a", "abbr", "article", "aside", "audio", "b", "base", "body", "br", "button", "code", "div",
    "em", "embed", "font", "footer", "form", "frame", "h1", "h2", "h3", "h4", "h5", "h6", "head",
    "header", "hr", "html", "i", "iframe", "img", "input", "label", "li", "link", "main", "mark",
    "meta", "nav", "object", "ol", "p", "picture", "pre", "s", "script", "section", "small",
    "source", "span", "strong", "style", "sub", "sup", "svg", "table", "td", "th", "tr", "u", "ul",
    "video",
];

/// Elements whose content is invisible.
const HIDDEN_ELEMENTS: [&str; 2] = ["script", "style"];

/// Returns the text without markup, entities and invisible characters, with single spaces; at most
/// `max_chars` characters, with `…` at the end if the text was cut.
///
/// Also removes markup that was encoded as entities, so that the output is never HTML. Takes linear
/// time.
pub(crate) fn to_plain_text(text: &str, max_chars: usize) -> String {
    let stripped_text = strip_markup(text);
    let decoded_text = html_escape::decode_html_entities(&stripped_text);
    // Removes markup a second time, because the removal of invisible characters may have joined the
    // parts of markup that these characters had split.
    let visible_text = normalize_spaces(&decoded_text);
    let final_text = strip_markup(&visible_text);
    truncate(&normalize_spaces(&final_text), max_chars)
}

fn strip_markup(text: &str) -> Cow<'_, str> {
    if !text.contains('<') {
        return Cow::Borrowed(text);
    }
    let mut output = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(index) = rest.find('<') {
        output.push_str(&rest[..index]);
        rest = &rest[index..];
        match find_markup_length(rest) {
            Some(length) => {
                rest = &rest[length..];
                remove_trailing_tag_start(&mut output);
            }
            None => {
                output.push('<');
                rest = &rest[1..];
            }
        }
    }
    output.push_str(rest);
    Cow::Owned(output)
}

/// Removes a `<` near the end of the text if the text from there on may be the beginning of a tag.
/// Called where markup was removed after this text: otherwise, the text that followed the markup
/// could complete the tag.
fn remove_trailing_tag_start(text: &mut String) {
    const MAX_TAG_START_BYTES: usize = 16;
    let is_tag_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"/!-".contains(byte);
    loop {
        let last_bytes = text.as_bytes().iter().rev().take(MAX_TAG_START_BYTES);
        let length = last_bytes.take_while(|byte| is_tag_byte(byte)).count();
        let Some(index) = text.len().checked_sub(length + 1) else {
            return;
        };
        if text.as_bytes()[index] != b'<' {
            return;
        }
        text.remove(index);
    }
}

/// Returns the length in bytes of the markup at the beginning of a text that begins with `<`.
fn find_markup_length(text: &str) -> Option<usize> {
    if let Some(comment) = text.strip_prefix("<!--") {
        return Some(comment.find("-->").map_or(text.len(), |end| end + 7));
    }
    let tag = &text[1..];
    let is_closing_tag = tag.starts_with('/');
    let text_from_tag_name = tag.strip_prefix(['/', '!']).unwrap_or(tag);
    let length = text_from_tag_name
        .find(|char: char| !char.is_ascii_alphanumeric())
        .unwrap_or(text_from_tag_name.len());
    let name = text_from_tag_name[..length].to_ascii_lowercase();
    if name != "doctype" && !HTML_ELEMENTS.contains(&name.as_str()) {
        return None;
    }
    // Markup without a `>` was cut off, so the rest of the text belongs to the markup.
    let end = text.find('>').map_or(text.len(), |end| end + 1);
    if is_closing_tag || !HIDDEN_ELEMENTS.contains(&name.as_str()) {
        return Some(end);
    }
    Some(find_closing_tag(text, end, &name).unwrap_or(text.len()))
}

/// Returns the byte index at which an element is closed, searching from `start`. Does not read
/// beyond that index.
fn find_closing_tag(text: &str, start: usize, name: &str) -> Option<usize> {
    let mut closing_tags = text[start..].match_indices("</");
    let is_closing = |offset: &usize| {
        let tag_name = text
            .as_bytes()
            .get(start + offset + 2..start + offset + 2 + name.len());
        tag_name.is_some_and(|tag_name| tag_name.eq_ignore_ascii_case(name.as_bytes()))
    };
    let offset = closing_tags.find_map(|(offset, _)| Some(offset).filter(is_closing))?;
    Some(start + offset)
}

/// Removes invisible characters, and replaces each run of spaces with one space.
fn normalize_spaces(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_whitespace() {
            if !output.is_empty() && !output.ends_with(' ') {
                output.push(' ');
            }
        } else if !is_invisible(char) {
            output.push(char);
        }
    }
    output.truncate(output.trim_end().len());
    output
}

/// Returns whether a character is a control character, changes the text direction or is hidden.
/// Returns `false` for joiners, because some scripts need them.
fn is_invisible(char: char) -> bool {
    char.is_control()
        || pillion_core::is_bidi_control(char)
        || matches!(char, '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

fn truncate(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    #[test]
    fn d7_markup_and_invisible_characters_are_removed() {
        for (text, plain) in [
            ("Rust &amp; <strong>PHP</strong>", "Rust & PHP"),
            ("a<br/>b <!-- c --> d", "ab d"),
            ("&lt;script&gt;alert(1)&lt;/script&gt;x", "x"),
            ("<script>alert(1)</script>x", "x"),
            ("<sCript>a</style></ScripT >x<STYLE>b</sty</style>y", "xy"),
            ("a &lt;&lt;b&gt;script&gt;alert(1)", "a script>alert(1)"),
            ("a <\u{200b}b>x</b>", "a x"),
            ("a <\u{200b}script>alert(1)</script>b", "a"),
            ("<&#8203;b&gt;c", "c"),
            ("<!&lt;b>-- c", "!-- c"),
            ("<style>p</\u{e9}</styl\u{e9}", ""),
            ("<style>p{}", ""),
            ("x <img src=x onerror=alert(1)", "x"),
            ("Vec<String> and a < b > c", "Vec<String> and a < b > c"),
            ("It&#39;s &quot;so&quot;&nbsp;&#x2026;", "It's \"so\" …"),
            (" a\r\n\tb\u{0}\u{7}\u{202e}c\u{200b}\u{e0041} ", "a bc"),
            ("\u{1b}[31mred &#27;", "[31mred &#27;"),
            ("<", "<"),
            ("<é", "<é"),
        ] {
            assert_eq!(to_plain_text(text, 100), plain, "{text}");
        }
    }

    /// Returns whether the text contains no element, not even an element joined from separate
    /// parts.
    fn is_bare(plain: &str) -> bool {
        let mut tag_starts = plain.match_indices('<');
        tag_starts.all(|(index, _)| find_markup_length(&plain[index..]).is_none())
    }

    proptest! {
        #[test]
        fn d7_the_output_contains_no_markup(
            pieces in vec(
                prop_oneof![
                    select(vec![
                        "<script>", "</script>", "</style", "</scrip", "<!--", "-->", "<b>", "</", "<",
                        ">", "&lt;", "&gt;", "&", "&#", ";", "!", "--", "a", " ", "\u{e9}", "\u{200b}",
                    ]),
                    select(HTML_ELEMENTS.to_vec()),
                ],
                0..24,
            ),
        ) {
            let plain = to_plain_text(&pieces.concat(), 1_000);
            prop_assert!(is_bare(&plain), "{plain}");
        }
    }

    #[test]
    fn d7_time_is_linear_in_the_length_of_the_text() {
        // A function that reads the rest of the text again for each element would not finish.
        const LENGTH: usize = 4 * 1024 * 1024;
        for piece in [
            "<script></script>",
            "<style>a</styl</style>",
            "<!----><b",
            "<<b>b>",
            "&lt;script&gt;&lt;/script&gt;",
        ] {
            let text = piece.repeat(LENGTH / piece.len());
            let plain = to_plain_text(&text, LENGTH);
            assert!(plain.len() <= text.len(), "{piece}");
        }
    }

    #[test]
    fn d7_long_texts_are_cut_between_characters() {
        assert_eq!(
            to_plain_text(&"é".repeat(11), 10),
            format!("{}…", "é".repeat(10))
        );
        assert_eq!(to_plain_text(&"é".repeat(10), 10), "é".repeat(10));
    }
}
