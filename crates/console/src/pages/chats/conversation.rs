//! The conversation of a chat. The texts of the user, the model and the tools are shown as text.

use maud::{Markup, html};
use pillion_core::truncated;
use pillion_management::chat::{ChatCall, ChatPart};

use crate::ui::{
    beginning, encode_segment, fits, indented, message, name, pagination, status_badge, untrusted,
    untrusted_beginning, with_query,
};

/// Maximum size of the parts that a page shows, in bytes of HTML. A single part may be larger.
const MAX_PAGE_BYTES: usize = 24 * 1024;

/// Maximum length of a text on the page of the chat, in bytes.
const MAX_TEXT_BYTES: usize = 4 * 1024;

/// Maximum length of a tool's name, in bytes. The model may have invented the name.
const MAX_NAME_BYTES: usize = 200;

/// Maximum length of a text on the page of one part, in bytes.
const MAX_SINGLE_BYTES: usize = 8 * 1024;

/// Renders the conversation of one chat.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conversation<'a> {
    /// The relative path from the page to the console, such as `../`.
    pub(super) root: &'a str,
    pub(super) chat_id: &'a str,
    pub(super) parts: &'a [ChatPart],
}

impl Conversation<'_> {
    fn href(&self, path: &str) -> String {
        let chat_id = encode_segment(self.chat_id);
        format!("{}chats/{chat_id}{path}", self.root)
    }

    /// Shows the newest parts before the part with the index `before`, oldest first, and links to
    /// the other parts.
    pub(super) fn render(&self, before: Option<usize>) -> Markup {
        let part_count = self.parts.len();
        let end = before.unwrap_or(part_count).min(part_count);
        let mut start = end;
        let mut shown_parts = Vec::new();
        let mut shown_bytes = 0;
        while start > 0 {
            let part = self.render_part(start - 1);
            shown_bytes += part.0.len();
            if !shown_parts.is_empty() && shown_bytes > MAX_PAGE_BYTES {
                break;
            }
            shown_parts.push(part);
            start -= 1;
        }
        let newest_url = (end < part_count).then(|| self.href(""));
        let older_url = (start > 0).then(|| {
            let start_text = start.to_string();
            with_query(&self.href(""), [("before", start_text.as_str())])
        });
        html! {
            @for part in shown_parts.iter().rev() { (part) }
            (pagination(newest_url, older_url))
        }
    }

    /// Shows a part, cut to a size that fits the page.
    fn render_part(&self, index: usize) -> Markup {
        let Some(part) = self.parts.get(index) else {
            return html! {};
        };
        let Some((author, text)) = text_of(part) else {
            return match part {
                ChatPart::Call(call) => self.render_call(index, call),
                _ => html! {},
            };
        };
        let class = if matches!(part, ChatPart::User(_)) {
            "user"
        } else {
            ""
        };
        let content = html! {
            div { (untrusted_beginning(text, MAX_TEXT_BYTES)) }
            @if !fits(text, MAX_TEXT_BYTES) {
                p .small { a href=(self.href(&format!("/parts/{index}"))) { "Show all of part " (index + 1) } }
            }
        };
        message(author, class, content)
    }

    /// Shows a call. The arguments and the result are folded; the page of the call in the call log
    /// shows both completely.
    fn render_call(&self, index: usize, call: &ChatCall) -> Markup {
        let arguments = call.arguments.to_string();
        let page_url = |id: &String| format!("{}calls/{}", self.root, encode_segment(id));
        let content = html! {
            details id={ "call-" (index) } {
                summary {
                    (name(truncated(&call.name, MAX_NAME_BYTES)))
                    @if let Some(status) = &call.status { " " (status_badge(status)) }
                    @if let Some(code) = &call.error_code { " " (name(code)) }
                }
                div .stack {
                    p .muted.small { "Arguments" }
                    pre .json tabindex="0" { (untrusted_beginning(&indented(truncated(&arguments, MAX_TEXT_BYTES)), MAX_TEXT_BYTES)) }
                    @if let Some(result) = &call.result {
                        p .muted.small { "Result, as the model reads it" }
                        pre .json tabindex="0" { (untrusted_beginning(result, MAX_TEXT_BYTES)) }
                    }
                }
            }
            @if let Some(url) = call.record_id.as_ref().map(page_url) {
                p .small { a href=(url) { "Show the call in the call log" } }
            }
        };
        message("Tool call", "", content)
    }
}

/// Returns the author and the text of a part that is a text.
fn text_of(part: &ChatPart) -> Option<(&'static str, &str)> {
    match part {
        ChatPart::System(text) => Some(("System prompt", text.as_str())),
        ChatPart::User(text) => Some(("You", text.as_str())),
        ChatPart::Assistant(text) => Some(("Model", text.as_str())),
        ChatPart::Call(_) => None,
    }
}

/// Shows a piece of the text of a part, from the byte `from`, with a link to the next piece.
/// Returns `None` if the part is not a text.
pub(super) fn render_single(part: &ChatPart, from: usize) -> Option<Markup> {
    let (author, text) = text_of(part)?;
    let start = truncated(text, from).len();
    let piece = beginning(&text[start..], MAX_SINGLE_BYTES);
    let end = start + piece.len();
    let next_url = (end < text.len()).then(|| {
        let end_text = end.to_string();
        with_query("", [("from", end_text.as_str())])
    });
    let content = html! {
        div { (untrusted(piece)) }
        @if let Some(url) = next_url { p .small { a href=(url) rel="next" { "Continue reading" } } }
    };
    Some(message(author, "", content))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(parts: &[ChatPart], before: Option<usize>) -> String {
        let conversation = Conversation {
            root: "../",
            chat_id: "1",
            parts,
        };
        conversation.render(before).into_string()
    }

    #[test]
    fn a_long_conversation_has_several_pages_with_the_newest_first() {
        let parts: Vec<_> = (0..40)
            .map(|number| ChatPart::User(format!("message-{number:02} {}", "x".repeat(2_000))))
            .collect();
        let newest_page = render(&parts, None);
        assert!(newest_page.len() < MAX_PAGE_BYTES + 1_000);
        assert!(newest_page.contains("message-39"));
        assert!(!newest_page.contains("message-00"));
        let (_, link) = newest_page.split_once("?before=").unwrap();
        let before: usize = link.split('"').next().unwrap().parse().unwrap();
        let older_page = render(&parts, Some(before));
        assert!(older_page.contains(&format!("message-{:02}", before - 1)));
        assert!(!older_page.contains(&format!("message-{before:02}")));
        assert!(older_page.contains("href=\"../chats/1\""), "a way back");
    }

    #[test]
    fn texts_are_neither_markup_nor_links_and_hidden_characters_do_not_fill_the_page() {
        let hostile = "<script>alert(1)</script> https://attacker.example [a](javascript:b)";
        let call = ChatCall {
            name: hostile.to_owned(),
            arguments: json!({ "a": hostile }),
            result: Some(hostile.to_owned()),
            status: None,
            error_code: None,
            record_id: Some("r/1".to_owned()),
        };
        let page = render(
            &[
                ChatPart::System(hostile.to_owned()),
                ChatPart::Assistant(hostile.to_owned()),
                ChatPart::Call(call),
            ],
            None,
        );
        assert!(!page.contains("<script"), "{page}");
        assert_eq!(page.matches("href=").count(), 1, "{page}");
        assert!(page.contains("href=\"../calls/r%2F1\""), "{page}");
        let hidden = render(&[ChatPart::Assistant("\u{200b}".repeat(100_000))], None);
        assert!(hidden.len() < 2 * MAX_PAGE_BYTES, "{}", hidden.len());
    }

    #[test]
    fn a_part_is_read_piece_by_piece() {
        let text = "ä".repeat(MAX_SINGLE_BYTES);
        let part = ChatPart::Assistant(text);
        let first_piece = render_single(&part, 0).unwrap().into_string();
        assert!(first_piece.contains(&format!("?from={MAX_SINGLE_BYTES}")));
        let last_piece = render_single(&part, MAX_SINGLE_BYTES + 1).unwrap();
        assert!(!last_piece.into_string().contains("?from="));
        let end = render_single(&part, usize::MAX).unwrap();
        assert!(!end.into_string().contains('ä'));
    }
}
