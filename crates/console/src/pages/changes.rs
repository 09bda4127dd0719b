//! Tools whose definitions have changed since they were accepted.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use pillion_gateway::access::Scope;
use pillion_management::pins::{self, PinQuery, PinnedTool};
use pillion_wire::{PinChange, PinEntry, PinResponse};
use serde_json::Value;

use super::{PageResult, redirect_to};
use crate::Console;
use crate::error::{PageError, Result};
use crate::form::{FormFields, QueryFields};
use crate::ui::{
    Page, Tone, card, empty_state, facts, hidden_fields, indented, json, name, notice,
    status_badge, time, untrusted, with_query,
};
use crate::visitor::{Section, Visitor};

pub(super) async fn list(
    State(console): State<Console>,
    visitor: Visitor,
    QueryFields(query): QueryFields,
) -> PageResult {
    let shows_all = query.get("all").is_some();
    let filter = PinQuery {
        server: query.text("server").map(str::to_owned),
        user: None,
        changed: Some((!shows_all).to_string()),
    };
    let pins = pins::list(&console.gateway, visitor.grant(), filter)
        .await?
        .pins;
    let body = html! {
        p .lead { "A server can change a tool after you have reviewed it, and models follow what a description says. Pillion compares each definition with the accepted one." }
        section #changes .card data-live-part {
            @if pins.is_empty() {
                (empty_state("No changed tools", html! { a href=(visitor.href("changes?all=1")) { "Show all accepted definitions" } }))
            } @else {
                div .scroll { table {
                    thead { tr { th { "Server" } th { "Tool" } th { "State" } th { "Since" } th { "Warnings" } } }
                    tbody { @for pin in &pins { (row(&visitor, pin)) } }
                } }
            }
        }
    };
    let page = Page::new("Changes", Section::Changes, body).with_live("tools");
    Ok(page.render(&visitor))
}

/// Returns the URL of the page of a pin. The names are in the query, because a name such as `..` cannot
/// be in a path.
fn pin_url(visitor: &Visitor, pin: &PinEntry) -> String {
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

fn row(visitor: &Visitor, pin: &PinEntry) -> Markup {
    html! {
        tr data-row {
            td { (untrusted(&pin.server)) @if let Some(user) = &pin.user { " " span .muted.small { "for " (untrusted(user)) } } }
            th scope="row" { a href=(pin_url(visitor, pin)) { (name(&pin.tool)) } }
            td { (status_badge(&pin.status)) }
            td .time { (time(pin.pending_since.as_deref().unwrap_or(&pin.accepted_at))) }
            td { @for warning in pin.warnings.iter().take(3) { p .small { (untrusted(warning)) } } }
        }
    }
}

pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    QueryFields(query): QueryFields,
) -> PageResult {
    let pin = pins::find(&console.gateway, visitor.grant(), pinned_tool(&query)).await?;
    Ok(pin_page(&visitor, &pin))
}

fn pin_page(visitor: &Visitor, response: &PinResponse) -> Markup {
    let pin = &response.pin;
    let details = facts([
        ("State", Some(status_badge(&pin.status))),
        ("Server", Some(untrusted(&pin.server))),
        ("User", pin.user.as_deref().map(untrusted)),
        ("Accepted", Some(time(&pin.accepted_at))),
        ("Changed", pin.pending_since.as_deref().map(time)),
        ("Accepted hash", Some(name(&pin.hash))),
        ("New hash", pin.pending_hash.as_deref().map(name)),
    ]);
    let body = html! {
        @for warning in &pin.warnings { (notice(Tone::Bad, html! { "Hidden text: " (untrusted(warning)) })) }
        (card("The definition", None, html! { div .content { (details) @if let Some(hash) = &pin.pending_hash { (accept_form(visitor, pin, hash)) } } }))
        @if !response.changes.is_empty() { (card("Changes", None, change_table(&response.changes))) }
        (card("Accepted definition", None, html! { div .content { (json("definition", &response.definition.to_string(), None)) } }))
    };
    let page = Page::new(&pin.tool, Section::Changes, body);
    page.render(visitor)
}

fn change_table(changes: &[PinChange]) -> Markup {
    let text = |value: &Option<Value>| {
        value.as_ref().map(|value| match value {
            Value::String(text) => text.clone(),
            value => indented(&value.to_string()),
        })
    };
    html! {
        div .scroll { table {
            thead { tr { th { "Where" } th { "Accepted" } th { "New" } } }
            tbody { @for change in changes {
                tr {
                    th scope="row" { (name(&change.path)) }
                    td { @if let Some(before) = text(&change.before) { pre .removed { (untrusted(&before)) } } @else { span .muted { "absent" } } }
                    td { @if let Some(after) = text(&change.after) { pre .added { (untrusted(&after)) } } @else { span .muted { "absent" } } }
                }
            } }
        } }
    }
}

fn accept_form(visitor: &Visitor, pin: &PinEntry, hash: &str) -> Markup {
    html! {
        @if visitor.may(Scope::Admin) {
            form .row method="post" action=(pin_url(visitor, pin)) {
                (hidden_fields(visitor))
                input type="hidden" name="hash" value=(hash);
                button .primary type="submit" data-key="a" { "Accept the new definition" }
                span .muted.small { "To reject the change, leave it as it is or remove the server." }
            }
        }
    }
}

pub(super) async fn accept(
    State(console): State<Console>,
    visitor: Visitor,
    QueryFields(query): QueryFields,
    form: FormFields,
) -> Result<Response> {
    visitor.require(Scope::Admin)?;
    // Only the definition that the page has shown is accepted.
    let hash = form
        .text("hash")
        .ok_or(PageError::InvalidForm("it does not name a definition"))?;
    pins::accept(
        &console.gateway,
        visitor.grant(),
        pinned_tool(&query),
        Some(hash),
    )
    .await?;
    Ok(redirect_to(&visitor.href("changes")))
}
