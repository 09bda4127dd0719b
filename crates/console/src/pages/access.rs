//! The access tokens, the workers, and the sessions of the console.

pub(super) mod new_token;
mod token;

use std::cmp::Reverse;

use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use maud::{Markup, html};
use pillion_core::store::{AccessToken, Timestamp};
use pillion_gateway::access::{AccessGrant, AllowedTools, Scope, SessionSummary, Users};
use pillion_gateway::timestamp::format_timestamp;
use pillion_gateway::workers::WorkerReport;
use pillion_management::browser_sessions;
use pillion_management::store::require_store;
use pillion_management::tokens;

use super::{PageResult, redirect_to};
use crate::Console;
use crate::admission::SessionCookie;
use crate::error::Result;
use crate::form::{FormFields, QueryFields};
use crate::ui::{
    Page, Tone, badge, card, empty_state, hidden_fields, name, notice, number, select_rows, time,
    untrusted_beginning, with_query,
};
use crate::visitor::{Section, Visitor};

/// Maximum number of rows of each list on the page.
const ROWS_PER_PAGE: usize = 20;

/// Maximum length of a name in a list, in bytes.
const MAX_LISTED_BYTES: usize = 80;

/// Maximum number of a worker's tools in the list.
const MAX_LISTED_TOOLS: usize = 8;

/// Maximum length of the error of a server, in bytes.
const MAX_ERROR_BYTES: usize = 300;

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route("/access", get(show))
        .route("/access/new", get(new_token::show).post(new_token::create))
        .route("/access/token", get(token::show))
        .route(
            "/access/revoke",
            get(token::confirm_revocation).post(token::revoke),
        )
        .route("/access/session", post(end_session))
}

async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    cookie: Option<Extension<SessionCookie>>,
    QueryFields(query): QueryFields,
) -> PageResult {
    visitor.require_section(Section::Access)?;
    let stored_tokens = load_tokens(&console, &visitor).await;
    let configured_grants = tokens::list_configured(console.gate.as_deref(), visitor.grant())?;
    let lifetime = console.session_lifetime();
    let sessions = browser_sessions::list(&console.gateway, visitor.grant(), lifetime)?;
    let own_session = cookie.and_then(|Extension(SessionCookie(cookie))| {
        let session = console.sessions().peek(&cookie, lifetime)?;
        Some(session.id.clone())
    });
    let workers = console.gateway.workers().reports();
    let body = html! {
        (listener_notice(&console))
        (card("Tokens of the store", None, stored_list(&visitor, &query, stored_tokens)))
        (card("Tokens of the configuration", None, configured_list(&visitor, &query, &configured_grants)))
        section #sessions .card data-live-part {
            header { h2 { "Sessions of the console" } }
            (session_list(&visitor, &query, &sessions, own_session.as_deref()))
        }
        section #workers .card data-live-part {
            header { h2 { "Workers" } }
            (worker_list(&visitor, &query, &workers))
        }
    };
    let actions = visitor.may(Scope::Admin).then(
        || html! { a .button.primary href=(visitor.href("access/new")) { "Create a token" } },
    );
    let page = Page::new("Access", Section::Access, body)
        .with_live("tools")
        .with_actions(actions);
    Ok(page.render(&visitor))
}

/// Shows a warning if the sidecar accepts no tokens, or no tokens of the store.
fn listener_notice(console: &Console) -> Markup {
    html! {
        @if console.gate.is_none() {
            (notice(Tone::Warning, html! { "The sidecar accepts no tokens, because it does not listen on TCP: set " code { "tcp.listen" } " and restart the sidecar. Clients on the Unix socket need no token." }))
        } @else if !console.accepts_stored_tokens {
            (notice(Tone::Warning, html! { "The sidecar does not accept the tokens of the store: set " code { "tcp.tokens_store = true" } "." }))
        }
    }
}

/// Returns the tokens of the store, or the reason why the tokens cannot be read: the rest of the
/// page works without the tokens.
async fn load_tokens(console: &Console, visitor: &Visitor) -> Result<Vec<AccessToken>, String> {
    let store = require_store(&console.gateway).map_err(|error| error.to_string())?;
    let mut tokens = tokens::list(&*store, visitor.grant())
        .await
        .map_err(|error| error.to_string())?;
    tokens.sort_by_key(|token| Reverse(token.created_at));
    Ok(tokens)
}

fn stored_list(
    visitor: &Visitor,
    query: &FormFields,
    stored_tokens: Result<Vec<AccessToken>, String>,
) -> Markup {
    let stored_tokens = match stored_tokens {
        Ok(tokens) => tokens,
        Err(error) => {
            return html! { div .content { (notice(Tone::Bad, html! { "The tokens of the store cannot be read: " (untrusted_beginning(&error, MAX_ERROR_BYTES)) })) } };
        }
    };
    if stored_tokens.is_empty() {
        return empty_state(
            "No tokens in the store",
            html! { "A client that connects over TCP needs a token: create one here, or with " code { "pillion tokens create" } "." },
        );
    }
    let url = visitor.href("access");
    let rows = select_rows(&stored_tokens, ROWS_PER_PAGE, &url, query, "tokens");
    html! {
        div .scroll { table {
            thead { tr { th { "Token" } th { "Scope" } th { "Acts for" } th { "Tools" } th { "Status" } th { "Created" } th { "Expires" } th { "Last used" } } }
            tbody { @for token in rows.shown { (stored_row(visitor, token)) } }
        } }
        (rows.links)
    }
}

fn stored_row(visitor: &Visitor, token: &AccessToken) -> Markup {
    let grant = AccessGrant::from_stored_token(token);
    let optional_time = |at: Option<Timestamp>, absent: &str| {
        html! { @if let Some(at) = at { (time(&format_timestamp(at))) } @else { span .muted { (absent) } } }
    };
    html! {
        tr data-row {
            th scope="row" { a href=(token_url(visitor, "access/token", &token.name)) { (untrusted_beginning(&token.name, MAX_LISTED_BYTES)) } }
            @match &grant {
                Some(grant) => { td { (grant.scope.as_str()) } td { (users(grant)) } td { (tools(grant, MAX_LISTED_BYTES)) } }
                None => { td colspan="3" { (badge(Tone::Bad, "unreadable")) } }
            }
            td { (token_status(token)) }
            td .time { (time(&format_timestamp(token.created_at))) }
            td .time { (optional_time(token.expires_at, "never")) }
            td .time { (optional_time(token.last_used_at, "never")) }
        }
    }
}

/// Returns the URL of a page about a token of the store. The name is in the query, because a name
/// such as `..` cannot be in a path.
fn token_url(visitor: &Visitor, path: &str, token_name: &str) -> String {
    with_query(&visitor.href(path), [("name", token_name)])
}

fn token_status(token: &AccessToken) -> Markup {
    let status = tokens::status(token);
    let tone = match status {
        "valid" => Tone::Good,
        "expired" => Tone::Warning,
        _ => Tone::Neutral,
    };
    badge(tone, status)
}

/// Shows the users on whose behalf the holder of a permission may act.
pub(super) fn users(grant: &AccessGrant) -> Markup {
    html! {
        @match &grant.users {
            Users::SingleUser(user) => { (untrusted_beginning(user, MAX_LISTED_BYTES)) }
            Users::AnyUser => { "every user" }
            Users::NoUser if grant.allows(Scope::Admin) => { "every user" }
            Users::NoUser => { span .muted { "no user" } }
        }
    }
}

/// Shows the list of tools of a permission.
pub(super) fn tools(grant: &AccessGrant, max_bytes: usize) -> Markup {
    let list = tool_list(&grant.tools);
    html! {
        @match &list {
            Some(list) => { code { (untrusted_beginning(list, max_bytes)) } }
            None => { "all" }
        }
    }
}

/// Returns a list of tools as text, such as `get_time,far_*`; `None` for all tools.
fn tool_list(tools: &AllowedTools) -> Option<String> {
    let word = tools.to_entry_word()?;
    let list = word.split_once('=').map(|(_, list)| list.to_owned());
    Some(list.unwrap_or(word))
}

fn configured_list(visitor: &Visitor, query: &FormFields, grants: &[AccessGrant]) -> Markup {
    if grants.is_empty() {
        return empty_state(
            "No tokens in the configuration",
            html! { "The settings " code { "tcp.tokens_file" } " and " code { "tcp.tokens_env" } " name tokens that the operator manages." },
        );
    }
    let url = visitor.href("access");
    let numbered_grants: Vec<_> = grants.iter().enumerate().collect();
    let rows = select_rows(&numbered_grants, ROWS_PER_PAGE, &url, query, "configured");
    html! {
        div .scroll { table {
            thead { tr { th { "Token" } th { "Scope" } th { "Acts for" } th { "Tools" } } }
            tbody { @for (entry, grant) in rows.shown {
                tr data-row {
                    th scope="row" { a href=(with_query(&visitor.href("access/token"), [("entry", entry.to_string().as_str())])) { (untrusted_beginning(&grant.name, MAX_LISTED_BYTES)) } }
                    td { (grant.scope.as_str()) }
                    td { (users(grant)) }
                    td { (tools(grant, MAX_LISTED_BYTES)) }
                }
            } }
        } }
        (rows.links)
    }
}

fn worker_list(visitor: &Visitor, query: &FormFields, workers: &[WorkerReport]) -> Markup {
    if workers.is_empty() {
        return empty_state(
            "No workers",
            html! { "A worker is a process that offers tools over the socket, such as " code { "php artisan pillion:work" } "." },
        );
    }
    let url = visitor.href("access");
    let rows = select_rows(workers, ROWS_PER_PAGE, &url, query, "workers");
    html! {
        div .scroll { table {
            thead { tr { th { "Worker" } th .number { "Process" } th { "Tools" } th { "State" } th .number { "Calls" } } }
            tbody { @for worker in rows.shown { (worker_row(worker)) } }
        } }
        (rows.links)
    }
}

fn worker_row(worker: &WorkerReport) -> Markup {
    let further_tools = worker.tools.len().saturating_sub(MAX_LISTED_TOOLS);
    html! {
        tr {
            th scope="row" { (untrusted_beginning(&worker.name, MAX_LISTED_BYTES)) }
            td .number { @if let Some(pid) = worker.pid { (pid) } }
            td {
                @for (index, tool) in worker.tools.iter().take(MAX_LISTED_TOOLS).enumerate() { @if index > 0 { ", " } (name(tool)) }
                @if further_tools > 0 { " " span .muted.small { "and " (number(further_tools as u64)) " more" } }
            }
            td { @if worker.is_busy { (badge(Tone::Warning, "busy")) } @else { (badge(Tone::Good, "idle")) } }
            td .number { (number(worker.calls)) }
        }
    }
}

fn session_list(
    visitor: &Visitor,
    query: &FormFields,
    sessions: &[SessionSummary],
    own_session: Option<&str>,
) -> Markup {
    if sessions.is_empty() {
        let next_step =
            html! { "The application that forwards your requests has signed you in itself." };
        return empty_state("No sessions", next_step);
    }
    let url = visitor.href("access");
    let rows = select_rows(sessions, ROWS_PER_PAGE, &url, query, "sessions");
    html! {
        div .scroll { table {
            thead { tr { th { "Person" } th { "Signed in as" } th { "Scope" } th { "Since" } th { "Last used" } @if visitor.may(Scope::Admin) { th { "Action" } } } }
            tbody { @for session in rows.shown {
                @let principal = session.grant.principal();
                tr {
                    th scope="row" {
                        @if let Some(user) = &session.user { (untrusted_beginning(user, MAX_LISTED_BYTES)) } @else { span .muted { "unknown" } }
                        @if own_session == Some(session.id.as_str()) { " " (badge(Tone::Neutral, "this browser")) }
                    }
                    td { (untrusted_beginning(&principal, MAX_LISTED_BYTES)) }
                    td { (session.grant.scope.as_str()) }
                    td .time { (time(&format_timestamp(session.began_at))) }
                    td .time { (time(&format_timestamp(session.last_used_at))) }
                    @if visitor.may(Scope::Admin) { td { (end_form(visitor, &session.id)) } }
                }
            } }
        } }
        (rows.links)
    }
}

fn end_form(visitor: &Visitor, id: &str) -> Markup {
    html! {
        form .inline method="post" action=(visitor.href("access/session")) {
            (hidden_fields(visitor))
            input type="hidden" name="id" value=(id);
            button type="submit" { "End" span .skip { " the session" } }
        }
    }
}

async fn end_session(
    State(console): State<Console>,
    visitor: Visitor,
    form: FormFields,
) -> Result<Response> {
    visitor.require(Scope::Admin)?;
    let id = form.text("id").unwrap_or_default();
    let lifetime = console.session_lifetime();
    browser_sessions::end(&console.gateway, visitor.grant(), lifetime, id)?;
    Ok(redirect_to(&visitor.href("access")))
}
