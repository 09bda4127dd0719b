//! The call log: a list with filters, a page for each call, and exports.

use std::future::ready;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures_util::StreamExt;
use futures_util::stream::{once, unfold};
use maud::{Markup, html};
use pillion_gateway::access::Scope;
use pillion_management::calls::{self, CallQuery};
use pillion_management::page::PageQuery;
use pillion_wire::ToolCallEntry;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::PageResult;
use crate::Console;
use crate::error::{PageError, Result};
use crate::form::{FormFields, QueryFields};
use crate::ui::{
    Field, FormControl, Page, Tone, badge, card, count, empty_state, encode_segment, facts, json,
    millis, name, notice, pagination, status_badge, time, untrusted, untrusted_beginning, user,
    with_query,
};
use crate::visitor::{Section, Visitor};

/// Maximum length of the arguments in a row of the list, in bytes.
const MAX_LISTED_BYTES: usize = 120;

/// Maximum number of calls in one export.
const MAX_EXPORTED_CALLS: usize = 10_000;

/// Maximum number of nested calls that the page of a call shows.
const MAX_NESTED_CALLS: u32 = 100;

/// The names of the filters, which are query parameters of the list and of the exports.
const FILTERS: [&str; 6] = ["server", "tool", "user", "status", "from", "until"];

const STATUSES: [(&str, &str); 8] = [
    ("", "Any"),
    ("success", "Success"),
    ("error", "Error"),
    ("running", "Running"),
    ("pending", "Waiting for approval"),
    ("denied", "Denied"),
    ("cancelled", "Cancelled"),
    ("interrupted", "Interrupted"),
];

/// Maximum number of pictures of a result that the page of a call shows.
const MAX_PICTURES: usize = 8;

/// Media types of pictures that the page of a call shows. Not SVG, which may contain scripts.
const PICTURE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Returns the filter that the query names.
fn read_filter(query: &FormFields) -> CallQuery {
    let text = |name| query.text(name).map(str::to_owned);
    CallQuery {
        server: text("server"),
        tool: text("tool"),
        user: text("user"),
        status: text("status"),
        from: text("from").map(complete_time),
        until: text("until").map(complete_time),
        parent: None,
    }
}

/// Completes a time of the control `datetime-local`, which has no time zone, to a time in UTC.
fn complete_time(text: String) -> String {
    match text.len() {
        16 => format!("{text}:00Z"),
        19 => format!("{text}Z"),
        _ => text,
    }
}

/// Returns the URL of `path` with the filters and one more parameter.
fn filtered_url(
    visitor: &Visitor,
    path: &str,
    query: &FormFields,
    more: Option<(&str, &str)>,
) -> String {
    let filters = FILTERS
        .iter()
        .filter_map(|filter| Some((*filter, query.text(filter)?)));
    with_query(&visitor.href(path), filters.chain(more))
}

pub(super) async fn list(
    State(console): State<Console>,
    visitor: Visitor,
    QueryFields(query): QueryFields,
) -> PageResult {
    let after = query.text("after");
    let calls = calls::list(
        &console.gateway,
        console.servers.as_deref(),
        visitor.grant(),
        read_filter(&query),
        PageQuery::after(after),
    )
    .await?;
    let page_url = |more| filtered_url(&visitor, "calls", &query, more);
    let next = calls
        .next
        .as_deref()
        .map(|next| page_url(Some(("after", next))));
    let first = after.map(|_| page_url(None));
    let has_filter = FILTERS.iter().any(|filter| query.text(filter).is_some());
    let body = html! {
        (filter_form(&query))
        section #calls .card data-live-part[after.is_none()] {
            @if calls.calls.is_empty() {
                @if has_filter {
                    (empty_state("No such calls", html! { a href=(visitor.href("calls")) { "Remove the filters" } }))
                } @else {
                    (empty_state("No calls yet", html! { "Run a tool on its page under " a href=(visitor.href("tools")) { "Tools" } "." }))
                }
            } @else {
                div .scroll { table {
                    thead { tr { th { "Started" } th { "Status" } th { "Tool" } th { "User" } th { "Arguments" } th .number { "Duration" } } }
                    tbody { @for call in &calls.calls { (row(&visitor, call)) } }
                } }
                (pagination(first, next))
            }
        }
    };
    let export = |format| filtered_url(&visitor, "calls/export", &query, Some(("format", format)));
    let actions = html! {
        a .button href=(export("csv")) { "CSV" }
        a .button href=(export("jsonl")) { "JSON lines" }
    };
    let page = Page::new("Calls", Section::Calls, body)
        .with_live("call")
        .with_actions(actions);
    Ok(page.render(&visitor))
}

fn filter_form(query: &FormFields) -> Markup {
    let text = |name, label| {
        let value = query.text(name).unwrap_or_default();
        Field::text(name, label, value).render()
    };
    let status = query.text("status").unwrap_or_default();
    html! {
        form .filters method="get" {
            (text("tool", "Tool"))
            (text("server", "Server"))
            (text("user", "User"))
            (Field::new("status", "Status", FormControl::Select { value: status, options: STATUSES.to_vec() }).render())
            (text("from", "From (UTC)"))
            (text("until", "Until (UTC)"))
            button type="submit" { "Show" }
        }
    }
}

fn row(visitor: &Visitor, call: &ToolCallEntry) -> Markup {
    let page = visitor.href(&format!("calls/{}", call.id));
    html! {
        tr data-row {
            td .time { a href=(page) { (time(&call.started_at)) } }
            td { (status_badge(&call.status)) @if call.cached { " " (badge(Tone::Neutral, "cached")) } }
            th scope="row" { (name(&call.tool_name)) }
            td { @if let Some(user) = user(call.user.as_deref(), call.user_is_verified) { (user) } }
            td { (untrusted_beginning(call.arguments.get(), MAX_LISTED_BYTES)) }
            td .number { @if let Some(duration) = call.duration_ms { (millis(duration)) } }
        }
    }
}

pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
    QueryFields(query): QueryFields,
) -> PageResult {
    let servers = console.servers.as_deref();
    let call = calls::find(&console.gateway, servers, visitor.grant(), &id).await?;
    let nested_filter = CallQuery {
        parent: Some(call.id.clone()),
        ..CallQuery::default()
    };
    let nested_page = PageQuery::first(MAX_NESTED_CALLS);
    let nested_calls = calls::list(
        &console.gateway,
        servers,
        visitor.grant(),
        nested_filter,
        nested_page,
    )
    .await?;
    let all_url = query.get("all").is_none().then_some("?all=1");
    let link = |id: &String| html! { a href=(visitor.href(&format!("calls/{id}"))) { (name(id)) } };
    let tool_page = visitor.href(&format!("tools/{}", encode_segment(&call.tool_name)));
    let details = facts([
        (
            "Status",
            Some(
                html! { (status_badge(&call.status)) @if call.cached { " " (badge(Tone::Neutral, "cached")) } },
            ),
        ),
        (
            "Tool",
            Some(html! { a href=(&tool_page) { (name(&call.tool_name)) } }),
        ),
        ("Server", call.server_name.as_deref().map(untrusted)),
        ("User", user(call.user.as_deref(), call.user_is_verified)),
        ("Principal", call.principal.as_deref().map(untrusted)),
        ("Interface", call.caller.as_deref().map(untrusted)),
        ("Started", Some(time(&call.started_at))),
        ("Ended", call.completed_at.as_deref().map(time)),
        (
            "Duration",
            call.duration_ms
                .map(|duration| html! { (millis(duration)) }),
        ),
        ("Error", call.error.as_deref().map(untrusted)),
        ("Error code", call.error_code.as_deref().map(name)),
        ("Called by", call.parent_id.as_ref().map(link)),
        ("ID", Some(name(&call.id))),
    ]);
    let optional_json = |heading, id, text: &Option<Box<RawValue>>| {
        let text = text.as_ref()?;
        Some(card(
            heading,
            None,
            html! { div .content { (json(id, text.get(), all_url)) } },
        ))
    };
    let has_ended = !["pending", "running"].contains(&call.status.as_str());
    let body = html! {
        div #progress data-live-part {
            @if call.status == "running" {
                (notice(Tone::Warning, html! { "The call is running. " a href="" { "Load the page again" } " to see whether it has ended." }))
            } @else if call.status == "pending" {
                (notice(Tone::Warning, html! { "The call waits for an approval, under " a href=(visitor.href("approvals")) { "Approvals" } "." }))
            }
        }
        div #call .columns data-live-part {
            (card("The call", None, html! { div .content { (details) } }))
            div .stack {
                (card("Arguments", None, html! { div .content { (json("arguments", call.arguments.get(), all_url)) } }))
                @if let Some(repaired) = optional_json("Arguments after the repair", "repaired-arguments", &call.repaired_arguments) { (repaired) }
                @if let Some(approved) = optional_json("Arguments as approved", "approved-arguments", &call.approved_arguments) { (approved) }
                @if let Some(result) = &call.result { (card("Result", None, html! { div .content { (show_result(&call, result, all_url)) } })) }
                @if !nested_calls.calls.is_empty() { (nested_call_list(&visitor, &nested_calls.calls)) }
            }
        }
    };
    let repeat_url = with_query(&tool_page, [("call", call.id.as_str())]);
    let actions = (has_ended && visitor.may(Scope::Execute))
        .then(|| html! { a .button href=(repeat_url) { "Run again …" } });
    let page = Page::new("Call", Section::Calls, body)
        .with_live("call")
        .with_actions(actions);
    Ok(page.render(&visitor))
}

fn show_result(call: &ToolCallEntry, result: &RawValue, all_url: Option<&str>) -> Markup {
    html! {
        @for number in 0..read_pictures(result).len() {
            img .picture loading="lazy" src={ (call.id) "/pictures/" (number) } alt={ "Picture " (number + 1) " of the result" };
        }
        (json("result", result.get(), all_url))
    }
}

fn nested_call_list(visitor: &Visitor, calls: &[ToolCallEntry]) -> Markup {
    let heading = format!(
        "Calls that this call made ({})",
        count(calls.len() as u64, "call")
    );
    let list = html! {
        div .content { ul .tree {
            @for call in calls {
                li { (status_badge(&call.status)) " " a href=(visitor.href(&format!("calls/{}", call.id))) { (name(&call.tool_name)) }
                    @if let Some(duration) = call.duration_ms { " " span .muted { (millis(duration)) } } }
            }
        } }
    };
    card(&heading, None, list)
}

/// A picture in a result: an MCP content block of the type `image`.
#[derive(Deserialize)]
struct Picture {
    #[serde(rename = "mimeType")]
    media_type: String,
    data: String,
}

/// Returns the pictures of a result that browsers can show.
fn read_pictures(result: &RawValue) -> Vec<Picture> {
    let mut result: Value = serde_json::from_str(result.get()).unwrap_or_default();
    let Some(Value::Array(blocks)) = result.get_mut("content").map(Value::take) else {
        return Vec::new();
    };
    blocks
        .into_iter()
        .filter(|block| block["type"] == "image")
        .filter_map(|block| serde_json::from_value::<Picture>(block).ok())
        .filter(|picture| PICTURE_TYPES.contains(&picture.media_type.as_str()))
        .take(MAX_PICTURES)
        .collect()
}

pub(super) async fn picture(
    State(console): State<Console>,
    visitor: Visitor,
    Path((id, number)): Path<(String, usize)>,
) -> Result<Response> {
    let call = calls::find(
        &console.gateway,
        console.servers.as_deref(),
        visitor.grant(),
        &id,
    )
    .await?;
    let pictures = call
        .result
        .as_deref()
        .map(read_pictures)
        .unwrap_or_default();
    let picture = pictures
        .into_iter()
        .nth(number)
        .ok_or(PageError::NotFound("The result has no such picture."))?;
    let bytes = BASE64_STANDARD
        .decode(picture.data)
        .map_err(|_| PageError::NotFound("The picture is not valid Base64."))?;
    let content_type = PICTURE_TYPES
        .iter()
        .find(|name| **name == picture.media_type)
        .copied()
        .unwrap_or("image/png");
    Ok((
        [(CONTENT_TYPE, HeaderValue::from_static(content_type))],
        bytes,
    )
        .into_response())
}

/// The columns of the CSV export.
const COLUMNS: [&str; 11] = [
    "id",
    "startedAt",
    "toolName",
    "serverName",
    "user",
    "principal",
    "status",
    "durationMs",
    "errorCode",
    "error",
    "arguments",
];

/// Sends the calls that the filters select, newest first, as CSV or as lines of JSON. The calls are read
/// from the store page by page while the browser receives them.
pub(super) async fn export(
    State(console): State<Console>,
    visitor: Visitor,
    QueryFields(query): QueryFields,
) -> Result<Response> {
    let is_csv = query.get("format") == Some("csv");
    let mut export = Export {
        console,
        visitor,
        query,
        is_csv,
        after: None,
        exported: 0,
        is_finished: false,
    };
    // The first page is read before the response begins, so that an invalid filter is an error page.
    let first_rows = export.read_page().await?;
    let heading = if is_csv {
        csv_row(COLUMNS.map(str::to_owned))
    } else {
        String::new()
    };
    let first_part = Bytes::from(heading + &first_rows);
    let rest = unfold(export, async |mut export| {
        if export.is_finished {
            return None;
        }
        let rows = export.read_page().await.map(Bytes::from);
        export.is_finished |= rows.is_err();
        Some((rows, export))
    });
    let (content_type, file) = if is_csv {
        (
            "text/csv; charset=utf-8",
            "attachment; filename=\"calls.csv\"",
        )
    } else {
        (
            "application/jsonl; charset=utf-8",
            "attachment; filename=\"calls.jsonl\"",
        )
    };
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (CONTENT_DISPOSITION, HeaderValue::from_static(file)),
    ];
    let body = Body::from_stream(once(ready(Ok(first_part))).chain(rest));
    Ok((headers, body).into_response())
}

/// An export that has sent some of its calls.
struct Export {
    console: Console,
    visitor: Visitor,
    query: FormFields,
    is_csv: bool,
    after: Option<String>,
    exported: usize,
    is_finished: bool,
}

impl Export {
    /// Returns the rows of the next page of calls.
    async fn read_page(&mut self) -> Result<String> {
        let page = PageQuery::after(self.after.as_deref());
        let (console, filter) = (&self.console, read_filter(&self.query));
        let servers = console.servers.as_deref();
        let calls = calls::list(
            &console.gateway,
            servers,
            self.visitor.grant(),
            filter,
            page,
        )
        .await?;
        self.exported += calls.calls.len();
        self.after = calls.next;
        self.is_finished = self.after.is_none() || self.exported >= MAX_EXPORTED_CALLS;
        let format_call = if self.is_csv {
            call_as_csv
        } else {
            call_as_json
        };
        Ok(calls.calls.iter().map(format_call).collect())
    }
}

fn call_as_json(call: &ToolCallEntry) -> String {
    let line = serde_json::to_string(call).unwrap_or_default();
    format!("{line}\n")
}

fn call_as_csv(call: &ToolCallEntry) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    csv_row([
        call.id.clone(),
        call.started_at.clone(),
        call.tool_name.clone(),
        text(&call.server_name),
        text(&call.user),
        text(&call.principal),
        call.status.clone(),
        call.duration_ms
            .map(|duration| duration.to_string())
            .unwrap_or_default(),
        text(&call.error_code),
        text(&call.error),
        call.arguments.get().to_owned(),
    ])
}

/// Returns a row of CSV (RFC 4180). A value that a spreadsheet would run as a formula gets an
/// apostrophe in front.
fn csv_row<const N: usize>(values: [String; N]) -> String {
    let quote = |value: String| {
        let guard = if value.starts_with(['=', '+', '-', '@', '\t', '\r']) {
            "'"
        } else {
            ""
        };
        format!("\"{guard}{}\"", value.replace('"', "\"\""))
    };
    let row = values.map(quote).join(",");
    format!("{row}\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spreadsheet_runs_no_formula_of_the_export() {
        let row = csv_row(["=HYPERLINK(\"x\")".to_owned(), "a,b".to_owned()]);
        assert_eq!(row, "\"'=HYPERLINK(\"\"x\"\")\",\"a,b\"\r\n");
    }

    #[test]
    fn a_result_of_any_form_has_a_page() {
        for json in [
            "42",
            "\"text\"",
            "null",
            "[]",
            "{}",
            r#"{"content":7}"#,
            r#"{"content":[7,{"type":"image"}]}"#,
        ] {
            assert!(read_pictures(&RawValue::from_string(json.to_owned()).unwrap()).is_empty());
        }
    }

    #[test]
    fn only_pictures_without_scripts_are_shown() {
        let json = r#"{"content":[{"type":"image","mimeType":"image/svg+xml","data":""},{"type":"image","mimeType":"image/png","data":"AA=="},{"type":"text"}]}"#;
        let pictures = read_pictures(&RawValue::from_string(json.to_owned()).unwrap());
        assert_eq!(pictures.len(), 1);
        assert_eq!(pictures[0].media_type, "image/png");
    }
}
