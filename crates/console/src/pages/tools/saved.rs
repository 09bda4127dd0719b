//! Saved calls: a list of all, and those of one tool.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use pillion_gateway::access::Scope;
use pillion_management::saved_calls::{self, ReusableArguments, SavedCall};

use super::tool_path;
use crate::Console;
use crate::error::{PageError, Result};
use crate::form::{FormFields, QueryFields};
use crate::pages::{PageResult, redirect_to};
use crate::ui::{
    Page, card, count, empty_state, hidden_fields, name, select_rows, time, untrusted,
    untrusted_beginning, with_query,
};
use crate::visitor::{Section, Visitor};

/// Maximum number of calls on one page of the list.
const CALLS_PER_PAGE: usize = 40;

/// Maximum number of calls that the page of a tool lists.
const MAX_CALLS_OF_TOOL: usize = 10;

/// Maximum length of the arguments in a row, in bytes.
const MAX_LISTED_BYTES: usize = 120;

/// Returns the first calls of a tool that the visitor has saved.
pub(super) async fn list_for_tool(
    console: &Console,
    visitor: &Visitor,
    tool_name: &str,
) -> Result<Vec<SavedCall>> {
    let mut calls = saved_calls::list(&console.gateway, visitor.grant(), visitor.user()).await?;
    calls.retain(|call| call.tool == tool_name);
    calls.truncate(MAX_CALLS_OF_TOOL);
    Ok(calls)
}

pub(in crate::pages) async fn list(
    State(console): State<Console>,
    visitor: Visitor,
    QueryFields(query): QueryFields,
) -> PageResult {
    let calls = saved_calls::list(&console.gateway, visitor.grant(), visitor.user()).await?;
    let url = visitor.href("saved-calls");
    let rows = select_rows(&calls, CALLS_PER_PAGE, &url, &query, "page");
    let body = html! {
        p .lead { "Calls that you have saved on the pages of tools. Only you see them. Values that the call log does not record, such as secrets, are not saved." }
        @if calls.is_empty() {
            section .card { (empty_state("No saved calls", html! { "Open a tool under " a href=(visitor.href("tools")) { "Tools" } ", fill in its arguments, and choose “Save this call”." })) }
        } @else {
            (card(&count(calls.len() as u64, "saved call"), None, html! {
                (table(&visitor, rows.shown, true))
                (rows.links)
            }))
        }
    };
    Ok(Page::new("Saved calls", Section::Tools, body).render(&visitor))
}

/// Shows saved calls, with the name of their tool if `has_tools`.
pub(super) fn table(visitor: &Visitor, calls: &[SavedCall], has_tools: bool) -> Markup {
    html! {
        div .scroll { table {
            thead { tr { th { "Name" } @if has_tools { th { "Tool" } } th { "For" } th { "Arguments" } th { "Saved" } th { "Actions" } } }
            tbody { @for call in calls { (row(visitor, call, has_tools)) } }
        } }
    }
}

fn row(visitor: &Visitor, call: &SavedCall, has_tools: bool) -> Markup {
    let tool_url = visitor.href(&tool_path(&call.tool));
    let open_url = with_query(&tool_url, [("saved", call.name.as_str())]);
    html! {
        tr data-row {
            th scope="row" { a href=(open_url) { (untrusted(&call.name)) } }
            @if has_tools { td { (name(&call.tool)) } }
            td { @if let Some(user) = &call.user { (untrusted(user)) } @else { span .muted { "yourself" } } }
            td { (untrusted_beginning(&call.arguments, MAX_LISTED_BYTES)) }
            td .time { (time(&call.saved_at)) }
            td {
                @if visitor.may(Scope::Execute) {
                    div .row {
                        @if ReusableArguments::read(&call.arguments).is_complete { (named_action(visitor, &tool_url, "saved", call, "Run", "")) }
                        (named_action(visitor, &visitor.href("saved-calls"), "name", call, "Remove", "danger"))
                    }
                }
            }
        }
    }
}

/// Shows a form with one button, which sends the name of a saved call.
fn named_action(
    visitor: &Visitor,
    url: &str,
    field: &str,
    call: &SavedCall,
    label: &str,
    class: &str,
) -> Markup {
    html! {
        form .inline method="post" action=(url) {
            (hidden_fields(visitor))
            input type="hidden" name=(field) value=(call.name);
            button type="submit" class=(class) { (label) span .skip { " " (untrusted(&call.name)) } }
        }
    }
}

pub(in crate::pages) async fn remove(
    State(console): State<Console>,
    visitor: Visitor,
    form: FormFields,
) -> Result<Response> {
    visitor.require(Scope::Execute)?;
    let name = form
        .get("name")
        .ok_or(PageError::InvalidForm("it does not name a saved call"))?;
    saved_calls::remove(&console.gateway, visitor.grant(), visitor.user(), name).await?;
    Ok(redirect_to(&visitor.href("saved-calls")))
}
