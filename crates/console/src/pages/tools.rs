//! The list of tools, the page of each tool, and saved calls.

mod offer;
mod page;
mod run;
pub(super) mod saved;
mod snippets;

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use maud::{Markup, html};
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::{CallContext, ToolOrigin};
use pillion_gateway::visibility::Visibility;
use pillion_gateway::{MissingTool, NameScope, Resolution};

use super::PageResult;
use crate::Console;
use crate::error::{PageError, Result};
use crate::form::QueryFields;
use crate::ui::{
    Page, Tone, count, empty_state, encode_segment, name, notice, select_rows, untrusted,
    untrusted_beginning,
};
use crate::visitor::{Section, Visitor};
pub(super) use page::show;
pub(super) use run::run;

/// Maximum number of tools on one page of the list.
const TOOLS_PER_PAGE: usize = 50;

/// Maximum number of words of a search.
const MAX_SEARCH_WORDS: usize = 8;

/// Maximum length of a description in the list, in bytes.
const MAX_LISTED_BYTES: usize = 200;

/// Returns the path of the page of a tool, below the console.
fn tool_path(name: &str) -> String {
    format!("tools/{}", encode_segment(name))
}

/// Returns the context of calls that the visitor makes, and what the visitor may see.
pub(super) fn call_context(visitor: &Visitor) -> (CallContext, Visibility) {
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
    let url = visitor.href("tools");
    let rows = select_rows(&found_tools, TOOLS_PER_PAGE, &url, &query, "page");
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
            @if rows.shown.is_empty() {
                (empty_state("No such tools", html! { "Add an MCP server under " a href=(visitor.href("servers")) { "Servers" } ", or search for something else." }))
            } @else {
                div .scroll { table {
                    thead { tr { th { "Tool" } th { "From" } th { "Description" } } }
                    tbody { @for tool in rows.shown { (row(&visitor, tool)) } }
                } }
                (rows.links)
            }
        }
    };
    let actions = html! { a .button href=(visitor.href("saved-calls")) { "Saved calls" } };
    let page = Page::new("Tools", Section::Tools, body)
        .with_live("tools,server")
        .with_actions(actions);
    Ok(page.render(&visitor))
}

fn row(visitor: &Visitor, tool: &RegisteredTool) -> Markup {
    let definition = tool.definition();
    html! {
        tr data-row {
            th scope="row" { a href=(visitor.href(&tool_path(tool.name().as_str()))) { (name(tool.name().as_str())) } }
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
