//! The tools, and a page for each tool on which one can run it.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use pillion_core::executor::ResolvedCall;
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::{CallContext, JsonObject, ToolCall, ToolOrigin, ToolResult};
use pillion_gateway::access::{MAX_USER_BYTES, Scope};
use pillion_gateway::visibility::Visibility;
use pillion_gateway::{MissingTool, NameScope, Resolution};
use serde_json::Value;

use super::PageResult;
use crate::Console;
use crate::error::{PageError, Result};
use crate::form::{FormFields, QueryFields};
use crate::schema_form::SchemaForm;
use crate::ui::{
    Field, FormControl, Page, Tone, badge, card, count, empty_state, encode_segment, facts,
    hidden_fields, json, name, notice, pagination, untrusted, untrusted_beginning, with_query,
};
use crate::visitor::{Section, Visitor};

/// Maximum number of tools on one page of the list.
const TOOLS_PER_PAGE: usize = 50;

/// Maximum number of words of a search.
const MAX_SEARCH_WORDS: usize = 8;

/// Maximum length of a description in the list, in bytes.
const MAX_LISTED_BYTES: usize = 200;

/// Maximum length of a result on the page, in bytes. The page of the call shows all of it.
const MAX_RESULT_BYTES: usize = 16 * 1024;

/// Maximum length of a description on the page of a tool, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 8 * 1024;

/// Returns the context of calls that the visitor makes, and what the visitor may see.
fn call_context(visitor: &Visitor) -> (CallContext, Visibility) {
    let grant = visitor.grant();
    let visibility = Visibility::new(grant.tools.clone());
    let context = CallContext {
        may_use: Some(visibility.filter()),
        user: visitor.user().map(str::to_owned),
        is_user_verified: visitor.user().is_some_and(|user| grant.may_act_for(user)),
        principal: Some(grant.principal()),
        caller: Some("console".to_owned()),
        ..CallContext::default()
    };
    (context, visibility.restrict_to_user(grant.only_user()))
}

pub(super) async fn list(
    State(console): State<Console>,
    visitor: Visitor,
    QueryFields(query): QueryFields,
) -> PageResult {
    let (context, visibility) = call_context(&visitor);
    let visible_tools = console
        .gateway
        .list_visible_tools(&context, &visibility)
        .await;
    let search = query.text("search").unwrap_or_default();
    let search_words: Vec<_> = search
        .split_whitespace()
        .take(MAX_SEARCH_WORDS)
        .map(str::to_lowercase)
        .collect();
    let matches = |tool: &RegisteredTool| {
        let text = format!("{} {}", tool.name(), tool.definition().description()).to_lowercase();
        search_words.iter().all(|word| text.contains(word))
    };
    let found_tools: Vec<_> = visible_tools
        .tools
        .iter()
        .filter(|tool| matches(tool))
        .collect();
    let page_number: usize = query
        .text("page")
        .and_then(|page| page.parse().ok())
        .unwrap_or(0);
    let start = page_number
        .saturating_mul(TOOLS_PER_PAGE)
        .min(found_tools.len());
    let end = found_tools.len().min(start + TOOLS_PER_PAGE);
    let page_url = |page: usize| {
        let page = page.to_string();
        with_query(
            &visitor.href("tools"),
            [("search", search), ("page", &page)],
        )
    };
    let shown_tools = &found_tools[start..end];
    let unavailable_servers = &visible_tools.unavailable_servers;
    let body = html! {
        form .filters method="get" role="search" {
            div .field { label for="search" { "Search" } input #search name="search" type="search" value=(search) data-key="/"; }
            button type="submit" { "Search" }
            span .muted { (count(found_tools.len() as u64, "tool")) }
        }
        @for server in unavailable_servers.iter().take(5) {
            (notice(Tone::Warning, html! { "The tools of " (untrusted(&server.label)) " are missing: " (untrusted_beginning(&server.error, 300)) }))
        }
        section #tools .card data-live-part {
            @if shown_tools.is_empty() {
                (empty_state("No such tools", html! { "Add an MCP server under " a href=(visitor.href("servers")) { "Servers" } ", or search for something else." }))
            } @else {
                div .scroll { table {
                    thead { tr { th { "Tool" } th { "From" } th { "Description" } } }
                    tbody { @for tool in shown_tools { (row(&visitor, tool)) } }
                } }
                (pagination((start > 0).then(|| page_url(0)), (end < found_tools.len()).then(|| page_url(page_number + 1))))
            }
        }
    };
    let page = Page::new("Tools", Section::Tools, body).with_live("tools,server");
    Ok(page.render(&visitor))
}

fn row(visitor: &Visitor, tool: &RegisteredTool) -> Markup {
    let definition = tool.definition();
    html! {
        tr data-row {
            th scope="row" { a href=(visitor.href(&format!("tools/{}", encode_segment(tool.name().as_str())))) { (name(tool.name().as_str())) } }
            td { (origin(tool)) }
            td { (untrusted_beginning(definition.description(), MAX_LISTED_BYTES)) }
        }
    }
}

/// Shows where a tool comes from: the label of its MCP server, or the kind of tool.
fn origin(tool: &RegisteredTool) -> Markup {
    match tool.origin() {
        ToolOrigin::Mcp { server_label, .. } => untrusted(server_label),
        _ => html! { span .muted { "Pillion" } },
    }
}

/// Looks up a tool for a caller.
async fn find_tool(
    console: &Console,
    (context, visibility): &(CallContext, Visibility),
    name: &str,
) -> Result<(Arc<RegisteredTool>, Resolution)> {
    let mut resolution = console
        .gateway
        .resolve(context, visibility, NameScope::Registered, &[name])
        .await;
    let tool = resolution.take_only().map_err(|missing| match missing {
        MissingTool::NoCredential(failure) => PageError::Rejected {
            status: StatusCode::CONFLICT,
            message: failure.message,
        },
        MissingTool::Blocked(_) => PageError::NotFound(
            "The definition of this tool has changed. Look at it under Changes.",
        ),
        MissingTool::Unavailable(_) => {
            PageError::NotFound("The MCP server of this tool is unavailable.")
        }
        MissingTool::Unknown => PageError::NotFound("There is no such tool."),
    })?;
    Ok((tool, resolution))
}

pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path(tool_name): Path<String>,
) -> PageResult {
    let (tool, _) = find_tool(&console, &call_context(&visitor), &tool_name).await?;
    Ok(tool_page(&visitor, &tool, &TryOut::default()))
}

/// The forms with which one runs a tool, and the outcome of the last run.
#[derive(Default)]
struct TryOut {
    form: SchemaForm,
    /// The arguments as JSON, as typed.
    json: Option<String>,
    fault: Option<String>,
    result: Option<ToolResult>,
}

/// Returns the arguments that the visitor has sent: as JSON, or in the controls of the form.
fn read_arguments(schema: &Value, fields: &FormFields) -> (TryOut, Option<JsonObject>) {
    let Some(json) = fields.get("json") else {
        let form = SchemaForm::read(schema, fields);
        let is_complete = form.is_valid() && !form.adds_item();
        let arguments = is_complete.then(|| form.arguments.clone());
        return (
            TryOut {
                form,
                ..TryOut::default()
            },
            arguments,
        );
    };
    let mut try_out = TryOut {
        json: Some(json.to_owned()),
        ..TryOut::default()
    };
    match serde_json::from_str::<JsonObject>(json) {
        Ok(arguments) => {
            try_out.form = SchemaForm::new(arguments.clone());
            (try_out, Some(arguments))
        }
        Err(error) => {
            try_out.fault = Some(format!("The arguments are not a JSON object: {error}"));
            (try_out, None)
        }
    }
}

pub(super) async fn run(
    State(console): State<Console>,
    visitor: Visitor,
    Path(tool_name): Path<String>,
    fields: FormFields,
) -> Result<Response> {
    visitor.require(Scope::Execute)?;
    let mut caller = call_context(&visitor);
    if let Some(user) = fields.text("user") {
        if user.len() > MAX_USER_BYTES {
            return Err(PageError::InvalidForm("the user's name is too long"));
        }
        let (user, is_verified) = visitor.grant().resolve_user(Some(user.to_owned()))?;
        (caller.0.user, caller.0.is_user_verified) = (user, is_verified);
    }
    let (tool, resolution) = find_tool(&console, &caller, &tool_name).await?;
    let (mut try_out, arguments) = read_arguments(tool.definition().input_schema(), &fields);
    if let Some(arguments) = arguments {
        let resolved_call = ResolvedCall {
            call: ToolCall::new("console", tool_name, Value::Object(arguments)),
            tool: Some(Arc::clone(&tool)),
            wait_time: resolution.duration,
        };
        let executor = resolution.executor(&console.gateway);
        let completed_call = executor.execute_resolved(resolved_call, &caller.0).await;
        try_out.result = Some(completed_call.result);
    }
    Ok(tool_page(&visitor, &tool, &try_out).into_response())
}

fn tool_page(visitor: &Visitor, tool: &RegisteredTool, try_out: &TryOut) -> Markup {
    let definition = tool.definition();
    let schema = definition.input_schema().to_string();
    let details = facts([
        ("Name", Some(name(tool.name().as_str()))),
        ("From", Some(origin(tool))),
        (
            "Category",
            Some(untrusted(definition.category())).filter(|_| !definition.category().is_empty()),
        ),
    ]);
    let body = html! {
        div .columns {
            (card("The tool", None, html! { div .content { (details) (untrusted_beginning(definition.description(), MAX_DESCRIPTION_BYTES)) } }))
            (try_form(visitor, tool, try_out))
        }
        (card("Schema of the arguments", None, html! { div .content { (json("schema", &schema, None)) } }))
    };
    let page = Page::new(tool.name().as_str(), Section::Tools, body);
    page.render(visitor)
}

fn try_form(visitor: &Visitor, tool: &RegisteredTool, try_out: &TryOut) -> Markup {
    let action = visitor.href(&format!("tools/{}", encode_segment(tool.name().as_str())));
    let schema = tool.definition().input_schema();
    let json = try_out.json.clone().unwrap_or_else(|| {
        serde_json::to_string_pretty(&try_out.form.arguments).unwrap_or_default()
    });
    let rows = json.lines().count().clamp(6, 24);
    let user_field = html! {
        (Field::text("user", "On behalf of", "").with_hint("The user whose credentials and limits apply. Empty: yourself.").render())
    };
    let content = html! {
        div .content {
            @if let Some(result) = &try_out.result { (show_result(result)) }
            @if visitor.may(Scope::Execute) {
                form .stack method="post" action=(action) {
                    (hidden_fields(visitor))
                    (try_out.form.render(schema))
                    (user_field)
                    div { button .primary type="submit" { "Run" } }
                }
                details open[try_out.json.is_some()] {
                    summary { "Arguments as JSON" }
                    form .stack method="post" action=(action) {
                        (hidden_fields(visitor))
                        (Field::new("json", "JSON", FormControl::Json { value: &json, rows }).with_fault(try_out.fault.as_deref()).render())
                        div { button type="submit" { "Run with this JSON" } }
                    }
                }
            } @else {
                p .muted { "Your sign-in does not include the scope 'execute', which running a tool needs." }
            }
        }
    };
    card("Try", None, content)
}

fn show_result(result: &ToolResult) -> Markup {
    let text = result.to_message();
    html! {
        div .row {
            @if result.success { (badge(Tone::Good, "success")) } @else { (badge(Tone::Bad, "error")) }
        }
        pre .json #result tabindex="0" { (untrusted_beginning(&text, MAX_RESULT_BYTES)) }
    }
}
