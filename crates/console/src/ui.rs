//! The components of the pages. The page `components` shows them all.

#![expect(
    clippy::needless_pass_by_value,
    reason = "a component takes its content as the macro takes a block"
)]

mod chart;
mod form;
mod format;
mod json;
mod layout;
mod rows;
mod text;

use maud::{Markup, html};

pub(crate) use chart::{Bar, bar_chart};
pub(crate) use form::{CSRF_FIELD, Field, FormControl, action_form, hidden_fields};
pub(crate) use format::{byte_count, count, duration, millis, number, share, time};
pub(crate) use json::{indented, json, shows_all_of};
pub(crate) use layout::{Page, bare_page};
pub(crate) use pillion_wire::route::encode_segment;
pub(crate) use rows::select_rows;
pub(crate) use text::{beginning, fits, name, untrusted, untrusted_beginning};

/// Adds a query to a URL.
pub(crate) fn with_query<'a>(
    url: &str,
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> String {
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(pairs)
        .finish();
    if query.is_empty() {
        url.to_owned()
    } else {
        format!("{url}?{query}")
    }
}

/// How good or bad a state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Neutral,
    Good,
    Warning,
    Bad,
}

impl Tone {
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Neutral => "",
            Self::Good => "good",
            Self::Warning => "warn",
            Self::Bad => "bad",
        }
    }
}

/// Shows a state in one or two words.
pub(crate) fn badge(tone: Tone, text: &str) -> Markup {
    html! { span class={ "badge " (tone.class()) } { (text) } }
}

/// Shows the status of a call, an approval or a server.
pub(crate) fn status_badge(status: &str) -> Markup {
    let tone = match status {
        "success" | "approved" | "connected" | "accepted" => Tone::Good,
        "pending" | "running" | "changed" | "new" | "expired" => Tone::Warning,
        "error" | "denied" | "interrupted" | "blocked" => Tone::Bad,
        _ => Tone::Neutral,
    };
    badge(tone, status)
}

/// Shows a message at the top of a page or a card.
pub(crate) fn notice(tone: Tone, message: Markup) -> Markup {
    html! { div class={ "notice " (tone.class()) } role="status" { (message) } }
}

/// Shows a part of a page with a heading.
pub(crate) fn card(heading: &str, actions: Option<Markup>, content: Markup) -> Markup {
    html! {
        section .card {
            header { h2 { (heading) } @if let Some(actions) = actions { div .row { (actions) } } }
            (content)
        }
    }
}

/// Says that there is nothing to show, and what to do next.
pub(crate) fn empty_state(heading: &str, next_step: Markup) -> Markup {
    html! { div .empty { h2 { (heading) } p { (next_step) } } }
}

/// Shows Pillion's own text, such as a configuration, with a button that copies it. `id` is the ID
/// of the element.
pub(crate) fn copyable(id: &str, text: &str) -> Markup {
    html! {
        pre #(id) .json tabindex="0" { (text) }
        div { button type="button" data-copy=(id) { "Copy" } }
    }
}

/// Shows a message of a conversation: who has written it, and its content. The class `user` marks
/// the messages of the user.
pub(crate) fn message(author: &str, class: &str, content: Markup) -> Markup {
    html! { article class={ "message " (class) } { h3 { (author) } (content) } }
}

/// Shows pairs of a name and a value; absent values are left out.
pub(crate) fn facts<'a>(facts: impl IntoIterator<Item = (&'a str, Option<Markup>)>) -> Markup {
    html! {
        dl .facts {
            @for (fact, value) in facts {
                @if let Some(value) = value { dt { (fact) } dd { (value) } }
            }
        }
    }
}

/// Shows the user of a call, and whether the user is verified.
pub(crate) fn user(user: Option<&str>, is_verified: bool) -> Option<Markup> {
    user.map(|user| {
        html! {
            (untrusted(user))
            @if !is_verified { " " span .muted.small title="Claimed by the client, not verified by Pillion" { "(claimed)" } }
        }
    })
}

/// Shows a link to the next page of a list, and one back to the first page.
pub(crate) fn pagination(first: Option<String>, next: Option<String>) -> Markup {
    html! {
        @if first.is_some() || next.is_some() {
            nav .pages aria-label="Pages" {
                span { @if let Some(first) = first { a href=(first) { "← Newest" } } }
                span { @if let Some(next) = next { a href=(next) rel="next" { "Older →" } } }
            }
        }
    }
}
