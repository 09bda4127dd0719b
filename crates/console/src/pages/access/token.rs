//! The page of a token, and its revocation.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use pillion_core::store::{AccessToken, Timestamp};
use pillion_core::tool::ToolOrigin;
use pillion_gateway::access::{AccessGrant, Scope};
use pillion_gateway::timestamp::format_timestamp;
use pillion_management::RequestError;
use pillion_management::store::require_store;
use pillion_management::tokens::{self, SeenTools};

use super::{MAX_ERROR_BYTES, MAX_LISTED_BYTES, token_status, token_url, tools, users};
use crate::Console;
use crate::error::{PageError, Result};
use crate::form::{FormFields, QueryFields};
use crate::pages::{PageResult, redirect_to};
use crate::ui::{
    Page, Tone, card, count, empty_state, encode_segment, facts, hidden_fields, name, notice,
    select_rows, time, untrusted, untrusted_beginning,
};
use crate::visitor::{Section, Visitor};

/// Maximum number of tools on one page of the list of what a token sees.
const TOOLS_PER_PAGE: usize = 100;

/// Maximum length of a list of tools on the page of its token, in bytes.
const MAX_TOOLS_BYTES: usize = 4 * 1024;

/// A token whose page is shown.
enum ShownToken {
    Stored(AccessToken),
    Configured(AccessGrant),
}

/// Returns the token that the query names: a token of the store by `name`, or a token of the
/// configuration by `entry`, its position, because names in the configuration may repeat.
async fn find_token(
    console: &Console,
    visitor: &Visitor,
    query: &FormFields,
) -> Result<ShownToken> {
    let Some(entry) = query.text("entry") else {
        return Ok(ShownToken::Stored(
            find_stored(console, visitor, query).await?,
        ));
    };
    let grants = tokens::list_configured(console.gate.as_deref(), visitor.grant())?;
    let index: Option<usize> = entry.parse().ok();
    let grant = index.and_then(|index| grants.into_iter().nth(index));
    grant.map(ShownToken::Configured).ok_or(PageError::NotFound(
        "The configuration has no such token. It may have changed.",
    ))
}

async fn find_stored(
    console: &Console,
    visitor: &Visitor,
    fields: &FormFields,
) -> Result<AccessToken> {
    let store = require_store(&console.gateway).map_err(RequestError::from)?;
    let token_name = fields.get("name").unwrap_or_default();
    Ok(tokens::find(&*store, visitor.grant(), token_name).await?)
}

pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    QueryFields(query): QueryFields,
) -> PageResult {
    visitor.require_section(Section::Access)?;
    let token = find_token(&console, &visitor, &query).await?;
    let (grant, record) = match token {
        ShownToken::Stored(record) => (AccessGrant::from_stored_token(&record), Some(record)),
        ShownToken::Configured(grant) => (Some(grant), None),
    };
    let title = match (&record, &grant) {
        (Some(record), _) => record.name.clone(),
        (None, Some(grant)) => grant.name.clone(),
        (None, None) => String::new(),
    };
    let is_valid = record
        .as_ref()
        .is_none_or(|record| tokens::status(record) == "valid");
    let seen_tools = match grant.as_ref().filter(|_| is_valid) {
        Some(grant) => Some(tokens::list_seen_tools(&console.gateway, grant).await),
        None => None,
    };
    let optional_time = |at: Option<Timestamp>| at.map(|at| time(&format_timestamp(at)));
    let details = facts([
        ("Status", record.as_ref().map(token_status)),
        (
            "Scope",
            grant.as_ref().map(|grant| html! { (grant.scope.as_str()) }),
        ),
        ("Acts for", grant.as_ref().map(users)),
        (
            "Allowed tools",
            grant.as_ref().map(|grant| tools(grant, MAX_TOOLS_BYTES)),
        ),
        (
            "Principal",
            grant.as_ref().map(|grant| name(&grant.principal())),
        ),
        (
            "Created",
            record
                .as_ref()
                .map(|record| time(&format_timestamp(record.created_at))),
        ),
        (
            "Expires",
            record.as_ref().map(|record| {
                optional_time(record.expires_at).unwrap_or_else(|| html! { "never" })
            }),
        ),
        (
            "Last used",
            record.as_ref().map(|record| {
                optional_time(record.last_used_at).unwrap_or_else(|| html! { "never" })
            }),
        ),
        (
            "Revoked",
            optional_time(record.as_ref().and_then(|record| record.revoked_at)),
        ),
        (
            "Defined in",
            Some(match &record {
                Some(_) => html! { "the store" },
                None => html! { "the configuration, where it is changed" },
            }),
        ),
    ]);
    let may_revoke = visitor.may(Scope::Admin)
        && record
            .as_ref()
            .is_some_and(|record| record.revoked_at.is_none());
    let body = html! {
        @if grant.is_none() { (notice(Tone::Bad, html! { "The record of this token cannot be read, so the sidecar rejects the token. Revoke it, and create a new one." })) }
        (card("The token", None, html! { div .content {
            (details)
            @if may_revoke { div .row { a .button href=(token_url(&visitor, "access/revoke", &title)) { "Revoke …" } } }
        } }))
        @if let Some(seen_tools) = &seen_tools {
            (seen_tools_card(&visitor, &query, seen_tools))
        } @else {
            (card("Visible tools", None, empty_state("No tools", html! { "The sidecar does not accept this token." })))
        }
    };
    let page = Page::new(&title, Section::Access, body);
    Ok(page.render(&visitor))
}

/// Shows the tools that the holder of a token sees. Tools that are not on the visitor's own list
/// are omitted.
fn seen_tools_card(visitor: &Visitor, query: &FormFields, seen_tools: &SeenTools) -> Markup {
    let own_tools = &visitor.grant().tools;
    let shown_tools: Vec<_> = seen_tools
        .tools
        .iter()
        .filter(|seen| own_tools.admits(seen.tool.name().as_str()))
        .collect();
    let url = visitor.href("access/token");
    let rows = select_rows(&shown_tools, TOOLS_PER_PAGE, &url, query, "tools");
    let content = html! {
        @for server in seen_tools.unavailable_servers.iter().take(5) {
            div .content { (notice(Tone::Warning, html! { "The tools of " (untrusted_beginning(&server.label, MAX_LISTED_BYTES)) " are missing: " (untrusted_beginning(&server.error, MAX_ERROR_BYTES)) })) }
        }
        @if shown_tools.is_empty() {
            (empty_state("No tools", html! { "The token's list contains no existing tool." }))
        } @else {
            div .content { p .muted {
                (count(shown_tools.len() as u64, "tool")) " over the REST API. "
                "MCP clients see the tools that " code { "mcp.tools" } " offers them."
                @if shown_tools.len() < seen_tools.tools.len() { " Tools that are not on your own list are not shown." }
            } }
            div .scroll { table {
                thead { tr { th { "Tool" } th { "From" } th { "MCP" } } }
                tbody { @for seen in rows.shown {
                    @let tool_name = seen.tool.name().as_str();
                    tr data-row {
                        th scope="row" { a href=(visitor.href(&format!("tools/{}", encode_segment(tool_name)))) { (name(tool_name)) } }
                        td { @if let ToolOrigin::Mcp { server_label, .. } = seen.tool.origin() { (untrusted(server_label)) } @else { span .muted { "Pillion" } } }
                        td { @if seen.is_offered { "offered" } @else { span .muted { "not offered" } } }
                    }
                } }
            } }
            (rows.links)
        }
    };
    card("Visible tools", None, content)
}

pub(super) async fn confirm_revocation(
    State(console): State<Console>,
    visitor: Visitor,
    QueryFields(query): QueryFields,
) -> PageResult {
    visitor.require(Scope::Admin)?;
    let token = find_stored(&console, &visitor, &query).await?;
    let body = html! {
        section .card { div .content {
            p { "Revokes the token " strong { (untrusted(&token.name)) } ":" }
            ul {
                li { "the sidecar rejects the token from the next request on" }
                li { "sessions of the console and streams that use the token end" }
                li { "the token cannot be made valid again, and its name cannot be used again" }
                li { "tokens that were created with this token stay valid" }
            }
            p .muted { "Last used: " @if let Some(at) = token.last_used_at { (time(&format_timestamp(at))) } @else { "never" } }
            div .row {
                form .inline method="post" action=(visitor.href("access/revoke")) {
                    (hidden_fields(&visitor))
                    input type="hidden" name="name" value=(token.name);
                    button .danger type="submit" { "Revoke the token" }
                }
                a .button href=(token_url(&visitor, "access/token", &token.name)) { "Keep it" }
            }
        } }
    };
    Ok(Page::new("Revoke a token", Section::Access, body).render(&visitor))
}

pub(super) async fn revoke(
    State(console): State<Console>,
    visitor: Visitor,
    form: FormFields,
) -> Result<Response> {
    visitor.require(Scope::Admin)?;
    let store = require_store(&console.gateway).map_err(RequestError::from)?;
    let token_name = form.get("name").unwrap_or_default();
    tokens::revoke(&*store, visitor.grant(), token_name).await?;
    Ok(redirect_to(&visitor.href("access")))
}
