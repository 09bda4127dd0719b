//! The frame of all pages: navigation, heading and live updates.

use maud::{DOCTYPE, Markup, html};

use super::text::untrusted;
use crate::assets;
use crate::visitor::{Section, Visitor};

/// A page of the console.
pub(crate) struct Page<'a> {
    title: &'a str,
    /// The entry of the navigation to which the page belongs.
    section: Section,
    /// What one can do on the page.
    actions: Option<Markup>,
    /// The kinds of events after which the page's live parts are loaded again, such as `approval`.
    live: Option<&'a str>,
    body: Markup,
}

impl<'a> Page<'a> {
    /// Creates a page without actions and live parts.
    pub(crate) fn new(title: &'a str, section: Section, body: Markup) -> Self {
        Self {
            title,
            section,
            actions: None,
            live: None,
            body,
        }
    }

    /// Sets what one can do on the page, beside its title.
    pub(crate) fn with_actions(self, actions: impl Into<Option<Markup>>) -> Self {
        let actions = actions.into();
        Self { actions, ..self }
    }

    /// Sets the kinds of events after which the page's live parts are loaded again.
    pub(crate) fn with_live(self, kinds: &'a str) -> Self {
        let live = Some(kinds);
        Self { live, ..self }
    }

    /// Renders the page for `visitor`.
    pub(crate) fn render(self, visitor: &Visitor) -> Markup {
        let live_url = self
            .live
            .map(|kinds| visitor.href(&format!("live?types={kinds}")));
        let body = html! {
            a .skip href="#main" { "Skip to the content" }
            div .frame {
                (side_bar(visitor, self.section))
                main #main data-live=[live_url] {
                    header .head {
                        h1 { (untrusted(self.title)) }
                        @if let Some(actions) = self.actions { div .actions { (actions) } }
                    }
                    (self.body)
                }
            }
            p #offline .notice.warn.offline hidden role="status" { "Live updates are interrupted. Reconnecting …" }
        };
        document(visitor.root(), self.title, body)
    }
}

fn side_bar(visitor: &Visitor, current: Section) -> Markup {
    html! {
        header .side {
            a .brand href=(visitor.href("home")) { "Pillion" }
            nav aria-label="Console" {
                ul #navigation data-live-part {
                    @for section in Section::ALL.into_iter().filter(|section| visitor.may_see(*section)) {
                        li {
                            a href=(visitor.href(section.path())) aria-current=[(section == current).then_some("page")] {
                                span { (section.title()) }
                                @let waiting = visitor.waiting(section);
                                @if waiting > 0 { span .badge.count { (waiting) span .skip { " waiting" } } }
                            }
                        }
                    }
                }
            }
            div .viewer {
                span { (untrusted(visitor.name())) @if visitor.is_read_only() { " (read only)" } }
                @if visitor.has_session() {
                    (super::action_form(visitor, "sign-out", "Sign out", "link"))
                }
            }
        }
    }
}

/// Renders a page without navigation, for browsers that are not signed in.
pub(crate) fn bare_page(root: &str, title: &str, body: Markup) -> Markup {
    document(
        root,
        title,
        html! { main #main .narrow { h1 { (title) } (body) } },
    )
}

/// Renders the HTML document around the body of a page. `root` is the path from the page to the
/// console, such as `../`.
fn document(root: &str, title: &str, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Pillion" }
                link rel="icon" type="image/svg+xml" href={ (root) (assets::ICON.path()) };
                link rel="stylesheet" href={ (root) (assets::STYLE.path()) };
                script type="module" src={ (root) (assets::SCRIPT.path()) } {}
            }
            body { (body) }
        }
    }
}
