//! Tools whose definitions have changed since they were accepted, and tools that are no longer
//! offered.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use pillion_core::store::Verdict;
use pillion_gateway::access::Scope;
use pillion_management::pins::{self, ListedTools, PinQuery, PinnedTool};
use pillion_wire::{PinChange, PinEntry, PinResponse};
use serde_json::Value;

use super::{PageResult, redirect_to};
use crate::Console;
use crate::error::{PageError, Result};
use crate::form::{FormFields, QueryFields};
use crate::ui::{
    Field, FormControl, Page, Tone, badge, card, empty_state, facts, fits, hidden_fields, indented,
    json, name, notice, select_rows, status_badge, time, untrusted, untrusted_beginning,
    with_query,
};
use crate::visitor::{Section, Visitor};

/// Maximum number of tools on one page of the list.
const TOOLS_PER_PAGE: usize = 50;

/// Maximum number of differences that a page shows, unless all are requested.
const MAX_SHOWN_CHANGES: usize = 20;

/// Maximum length of each side of a difference, in bytes, unless all are requested.
const MAX_CHANGE_BYTES: usize = 1024;

/// Maximum length of a warning in the list, in bytes.
const MAX_WARNING_BYTES: usize = 120;

/// The tools that the list can be restricted to.
const FILTERS: [(&str, &str); 4] = [
    ("waiting", "Waiting for a decision"),
    ("rejected", "Rejected"),
    ("missing", "No longer offered"),
    ("all", "All"),
];

pub(super) async fn list(
    State(console): State<Console>,
    visitor: Visitor,
    QueryFields(query): QueryFields,
) -> PageResult {
    let shown = match query.get("all") {
        Some(_) => "all",
        None => query.text("show").unwrap_or("waiting"),
    };
    let server = query.text("server");
    let filter = PinQuery {
        server: server.map(str::to_owned),
        user: None,
        changed: (shown == "waiting").then(|| "true".to_owned()),
    };
    let mut pins = pins::list(&console.gateway, visitor.grant(), filter)
        .await?
        .pins;
    let listed_tools = ListedTools::read(&console.gateway);
    match shown {
        "rejected" => pins.retain(|pin| pin.status == "rejected"),
        "missing" => pins.retain(|pin| listed_tools.lacks(pin)),
        _ => {}
    }
    let url = visitor.href("changes");
    let rows = select_rows(&pins, TOOLS_PER_PAGE, &url, &query, "page");
    let body = html! {
        p .lead { "A server can change a tool after you have reviewed it, and models follow what a description says. Pillion compares each definition with the accepted one." }
        form .filters method="get" {
            (Field::new("show", "Tools", FormControl::Select { value: shown, options: FILTERS.to_vec() }).render())
            (Field::text("server", "Server", server.unwrap_or_default()).render())
            button type="submit" { "Show" }
        }
        section #changes .card data-live-part {
            @if pins.is_empty() {
                @if shown == "waiting" {
                    (empty_state("No changed tools", html! { a href=(visitor.href("changes?show=all")) { "Show all accepted definitions" } }))
                } @else {
                    (empty_state("No such tools", html! { "Select other tools above." }))
                }
            } @else {
                div .scroll { table {
                    thead { tr { th { "Server" } th { "Tool" } th { "State" } th { "Since" } th { "Warnings" } } }
                    tbody { @for pin in rows.shown { (row(&visitor, pin, listed_tools.lacks(pin))) } }
                } }
                (rows.links)
            }
        }
    };
    let page = Page::new("Changes", Section::Changes, body).with_live("tools");
    Ok(page.render(&visitor))
}

/// Returns the URL of the page of a pin. The names are in the query, because a name such as `..` cannot
/// be in a path.
pub(super) fn pin_url(visitor: &Visitor, pin: &PinEntry) -> String {
    let names = [("server", pin.server.as_str()), ("tool", pin.tool.as_str())];
    let user = pin.user.as_deref().map(|user| ("user", user));
    with_query(&visitor.href("changes/tool"), names.into_iter().chain(user))
}

/// Returns the tool that a query names.
fn pinned_tool(query: &FormFields) -> PinnedTool<'_> {
    PinnedTool {
        server: query.get("server").unwrap_or_default(),
        tool: query.get("tool").unwrap_or_default(),
        user: query.text("user"),
    }
}

fn row(visitor: &Visitor, pin: &PinEntry, is_missing: bool) -> Markup {
    html! {
        tr data-row {
            td { (untrusted(&pin.server)) @if let Some(user) = &pin.user { " " span .muted.small { "for " (untrusted(user)) } } }
            th scope="row" { a href=(pin_url(visitor, pin)) { (name(&pin.tool)) } }
            td { (state(pin)) @if is_missing { " " (badge(Tone::Warning, "no longer offered")) } }
            td .time { (time(pin.pending_since.as_deref().unwrap_or(&pin.accepted_at))) }
            td { @for warning in pin.warnings.iter().take(3) { p .small { (untrusted_beginning(warning, MAX_WARNING_BYTES)) } } }
        }
    }
}

fn state(pin: &PinEntry) -> Markup {
    match pin.status.as_str() {
        "rejected" => badge(Tone::Bad, "rejected"),
        "renamed" => badge(Tone::Warning, "renamed"),
        status => status_badge(status),
    }
}

pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    QueryFields(query): QueryFields,
) -> PageResult {
    let pin = pins::find(&console.gateway, visitor.grant(), pinned_tool(&query)).await?;
    let is_missing = ListedTools::read(&console.gateway).lacks(&pin.pin);
    let all_url = query.get("all").is_none().then(|| {
        let pairs = query.iter().chain([("all", "1")]);
        with_query(&visitor.href("changes/tool"), pairs)
    });
    Ok(pin_page(&visitor, &pin, is_missing, all_url.as_deref()))
}

/// Shows a pin. `all_url` is the URL of the page that shows long definitions completely, if this
/// page does not. Only a definition whose differences the page shows completely can be accepted.
fn pin_page(
    visitor: &Visitor,
    response: &PinResponse,
    is_missing: bool,
    all_url: Option<&str>,
) -> Markup {
    let pin = &response.pin;
    let changes = change_table(&response.changes, all_url);
    // Without an accepted definition, the differences are the whole new definition.
    let accept_url = all_url.filter(|_| !changes.is_complete);
    let details = facts([
        ("State", Some(state(pin))),
        ("Server", Some(untrusted(&pin.server))),
        ("User", pin.user.as_deref().map(untrusted)),
        (
            if pin.hash.is_empty() {
                "First seen"
            } else {
                "Accepted"
            },
            Some(time(&pin.accepted_at)),
        ),
        ("Changed", pin.pending_since.as_deref().map(time)),
        (
            "Accepted hash",
            (!pin.hash.is_empty()).then(|| name(&pin.hash)),
        ),
        ("New hash", pin.pending_hash.as_deref().map(name)),
    ]);
    let body = html! {
        @for warning in &pin.warnings { (notice(Tone::Bad, html! { "Hidden text: " (untrusted(warning)) })) }
        @if is_missing { (notice(Tone::Warning, html! { "The server no longer offers this tool. If the server offers the tool again, its definition is compared with the accepted one." })) }
        (card("The definition", None, html! { div .content { (details) @if let Some(hash) = &pin.pending_hash { (decision_form(visitor, pin, hash, accept_url)) } } }))
        @if !response.changes.is_empty() { (card("Changes", None, changes.table)) }
        @if !pin.hash.is_empty() {
            (card("Accepted definition", None, html! { div .content { (json("definition", &response.definition.to_string(), all_url)) } }))
        }
    };
    let page = Page::new(&pin.tool, Section::Changes, body);
    page.render(visitor)
}

/// The differences between the accepted and the offered definition.
pub(super) struct ChangeTable {
    pub(super) table: Markup,
    /// Whether the table shows all differences completely.
    pub(super) is_complete: bool,
}

/// Shows the differences between the accepted and the offered definition. With `all_url`, the URL
/// of a page that shows all differences, shows only the beginning.
pub(super) fn change_table(changes: &[PinChange], all_url: Option<&str>) -> ChangeTable {
    let (max_changes, max_bytes) = match all_url {
        Some(_) => (MAX_SHOWN_CHANGES, MAX_CHANGE_BYTES),
        None => (usize::MAX, usize::MAX),
    };
    let text = |value: &Option<Value>| {
        value.as_ref().map(|value| match value {
            Value::String(text) => text.clone(),
            value => indented(&value.to_string()),
        })
    };
    let is_complete = changes.len() <= max_changes
        && changes.iter().all(|change| {
            let sides = [text(&change.before), text(&change.after)];
            let mut texts = sides.iter().flatten().chain([&change.path]);
            texts.all(|text| fits(text, max_bytes))
        });
    let table = html! {
        div .scroll { table {
            thead { tr { th { "Where" } th { "Accepted" } th { "New" } } }
            tbody { @for change in changes.iter().take(max_changes) {
                tr {
                    th scope="row" { code { (untrusted_beginning(&change.path, max_bytes)) } }
                    td { @if let Some(before) = text(&change.before) { pre .removed { (untrusted_beginning(&before, max_bytes)) } } @else { span .muted { "absent" } } }
                    td { @if let Some(after) = text(&change.after) { pre .added { (untrusted_beginning(&after, max_bytes)) } } @else { span .muted { "absent" } } }
                }
            } }
        } }
        @if let Some(url) = all_url.filter(|_| !is_complete) {
            div .content { p .muted.small { "The differences are not shown completely. " a href=(url) { "Show all" } } }
        }
    };
    ChangeTable { table, is_complete }
}

/// Shows the buttons that decide on a definition. With `all_url`, a link to the page with all
/// differences is in place of the button that accepts the definition.
fn decision_form(visitor: &Visitor, pin: &PinEntry, hash: &str, all_url: Option<&str>) -> Markup {
    let is_rejected = pin.status == "rejected";
    html! {
        @if visitor.may(Scope::Admin) {
            form .row method="post" action=(pin_url(visitor, pin)) {
                (hidden_fields(visitor))
                input type="hidden" name="hash" value=(hash);
                @if let Some(url) = all_url {
                    a .button href=(url) { "Show all, to accept the definition" }
                } @else {
                    button .primary type="submit" name="decision" value="accept" data-key="a" { "Accept the new definition" }
                }
                @if is_rejected {
                    span .muted.small { "This definition was rejected: the tool is blocked until the server offers another one." }
                } @else {
                    button .danger type="submit" name="decision" value="reject" data-key="d" { "Reject" }
                    span .muted.small { "A tool with a rejected definition is blocked until the server offers another one." }
                }
            }
        }
    }
}

/// Accepts or rejects a changed definition.
pub(super) async fn decide(
    State(console): State<Console>,
    visitor: Visitor,
    QueryFields(query): QueryFields,
    form: FormFields,
) -> Result<Response> {
    visitor.require(Scope::Admin)?;
    // The decision applies only to the definition that the page has shown.
    let hash = form
        .text("hash")
        .ok_or(PageError::InvalidForm("it does not name a definition"))?;
    let (gateway, grant, tool) = (&console.gateway, visitor.grant(), pinned_tool(&query));
    let verdict = match form.get("decision") {
        Some("accept") => Verdict::Approved,
        Some("reject") => Verdict::Denied,
        _ => return Err(PageError::InvalidForm("it has no decision")),
    };
    pins::decide(gateway, grant, tool, Some(hash), verdict).await?;
    Ok(redirect_to(&visitor.href("changes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, after: &str) -> PinChange {
        PinChange {
            path: path.to_owned(),
            before: None,
            after: Some(Value::from(after)),
        }
    }

    #[test]
    fn long_differences_are_complete_only_on_the_page_that_shows_all() {
        let short = [change("description", "Rolls dice")];
        assert!(change_table(&short, Some("all")).is_complete);
        let long = [change("description", &"\u{200b}".repeat(10_000))];
        let many = vec![change("x", "y"); 1_000];
        for changes in [&long[..], &many[..]] {
            let beginning = change_table(changes, Some("all"));
            assert!(!beginning.is_complete);
            let table = beginning.table.into_string();
            assert!(table.len() < 8 * 1024, "{}", table.len());
            assert!(table.contains("href=\"all\""), "{table}");
            assert!(change_table(changes, None).is_complete);
        }
    }
}
