//! Text from outside: tool descriptions, arguments, results, names. All of it is shown as text whose
//! hidden characters are visible, never as markup and never as a link.

use maud::{Markup, html};
use pillion_core::is_hidden;

/// Approximate size of the mark of a hidden character, in bytes of HTML.
const MARK_BYTES: usize = 80;

/// Shows text from outside, in its own direction, with its hidden characters marked.
pub(crate) fn untrusted(text: &str) -> Markup {
    html! { bdi .untrusted { (marked(text)) } }
}

/// Returns the beginning of a text from outside that needs at most `max_bytes` bytes on a page. A
/// hidden character counts as much as its mark, so that hidden characters do not fill the page.
pub(crate) fn beginning(text: &str, max_bytes: usize) -> &str {
    let mut free_bytes = max_bytes;
    for (index, character) in text.char_indices() {
        let bytes = if is_hidden(character) {
            MARK_BYTES
        } else {
            character.len_utf8()
        };
        let Some(rest) = free_bytes.checked_sub(bytes) else {
            return &text[..index];
        };
        free_bytes = rest;
    }
    text
}

/// Returns whether [`untrusted_beginning`] shows the whole text.
pub(crate) fn fits(text: &str, max_bytes: usize) -> bool {
    beginning(text, max_bytes).len() == text.len()
}

/// Shows the [`beginning`] of a text from outside, and the size of the omitted rest.
pub(crate) fn untrusted_beginning(text: &str, max_bytes: usize) -> Markup {
    let beginning = beginning(text, max_bytes);
    let omitted = text.len() - beginning.len();
    html! {
        (untrusted(beginning))
        @if omitted > 0 {
            " " span .muted.small { "… and " (super::byte_count(omitted as u64)) " more" }
        }
    }
}

/// Shows a short text from outside, such as a name, as code.
pub(crate) fn name(text: &str) -> Markup {
    html! { code { bdi .untrusted { (marked(text)) } } }
}

/// Returns the text with a mark in place of each hidden character.
pub(super) fn marked(text: &str) -> Markup {
    let mut rest = text;
    html! {
        @while let Some((start, character)) = rest.char_indices().find(|(_, character)| is_hidden(*character)) {
            (rest[..start])
            (hidden_character(character))
            ({ rest = &rest[start + character.len_utf8()..]; "" })
        }
        (rest)
    }
}

fn hidden_character(character: char) -> Markup {
    let code_point = format!("U+{:04X}", u32::from(character));
    html! { span .hidden-char title="A character that is not visible" { (code_point) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_text_and_hidden_characters_are_visible() {
        let shown = untrusted("<script>a</script>\u{202e}b\u{200b}").into_string();
        assert!(shown.contains("&lt;script&gt;a&lt;/script&gt;"), "{shown}");
        assert!(
            shown.contains(">U+202E<") && shown.contains(">U+200B<"),
            "{shown}"
        );
        assert!(
            !shown.contains('\u{202e}') && !shown.contains('\u{200b}'),
            "{shown}"
        );
    }

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        let shown = untrusted_beginning(&"ä".repeat(2_000), 101).into_string();
        assert!(
            shown.contains(&"ä".repeat(50)) && !shown.contains(&"ä".repeat(51)),
            "{shown}"
        );
        assert!(shown.contains("and 3.8 KiB more"), "{shown}");
        assert!(fits("ä", 2) && !fits("ä", 1) && fits("", 0));
    }

    #[test]
    fn hidden_characters_do_not_fill_the_page() {
        for text in ["\u{200b}".repeat(10_000), "a\u{202e}".repeat(10_000)] {
            let shown = untrusted_beginning(&text, 8 * 1024).into_string();
            assert!(shown.len() < 10 * 1024, "{}", shown.len());
            assert!(!fits(&text, 8 * 1024));
        }
    }
}
