//! The access tokens, the workers, and the sessions of the console.

use std::cmp::Reverse;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use maud::{Markup, html};
use pillion_core::store::{AccessToken, Timestamp};
use pillion_core::tool::ToolOrigin;
use pillion_gateway::access::{
    AccessGate, AccessGrant, AllowedTools, Scope, SessionSummary, Users,
};
use pillion_gateway::timestamp::format_timestamp;
use pillion_gateway::workers::WorkerReport;
use pillion_management::store::require_store;
use pillion_management::tokens::{self, CreatedToken, NewAccessToken, SeenTools, TokenError};
use pillion_management::{RequestError, browser_sessions};

use super::{PageResult, redirect_to};
use crate::Console;
use crate::admission::SessionCookie;
use crate::error::{PageError, Result};
use crate::form::{FormFields, QueryFields};
use crate::ui::{
    Field, FormControl, Page, Tone, badge, card, copyable, count, empty_state, encode_segment,
    facts, hidden_fields, name, notice, number, pagination, time, untrusted, untrusted_beginning,
    with_query,
};
use crate::visitor::{Section, Visitor};

/// Maximum number of rows of each list on the page.
const ROWS_PER_PAGE: usize = 20;

/// Maximum number of tools on one page of the list of what a token sees.
const TOOLS_PER_PAGE: usize = 100;

/// Maximum length of a name in a list, in bytes.
const MAX_LISTED_BYTES: usize = 80;

/// Maximum number of a worker's tools in the list.
const MAX_LISTED_TOOLS: usize = 8;

/// Maximum length of a list of tools on the page of its token, in bytes.
const MAX_TOOLS_BYTES: usize = 4 * 1024;

/// Maximum length of the error of a server, in bytes.
const MAX_ERROR_BYTES: usize = 300;

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route("/access", get(show))
        .route("/access/new", get(new).post(create))
        .route("/access/token", get(show_token))
        .route("/access/revoke", get(confirm_revocation).post(revoke))
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

/// The rows of a list that one page shows.
struct Rows<'a, T> {
    shown: &'a [T],
    links: Markup,
}

/// Returns the rows of the page that the query parameter `key` selects, and the links to other
/// pages.
fn select_rows<'a, T>(
    rows: &'a [T],
    rows_per_page: usize,
    url: &str,
    query: &FormFields,
    key: &str,
) -> Rows<'a, T> {
    let page: usize = query
        .text(key)
        .and_then(|page| page.parse().ok())
        .unwrap_or(0);
    let start = page.saturating_mul(rows_per_page).min(rows.len());
    let end = rows.len().min(start + rows_per_page);
    let page_url = |page: usize| {
        let page_text = page.to_string();
        // The other parameters of the URL, such as the name of a token, stay.
        let other_parameters = query.iter().filter(|(name, _)| *name != key);
        with_query(url, other_parameters.chain([(key, page_text.as_str())]))
    };
    let first = (start > 0).then(|| page_url(0));
    let next = (end < rows.len()).then(|| page_url(page + 1));
    Rows {
        shown: &rows[start..end],
        links: pagination(first, next),
    }
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

/// The form of a new token: what was typed, and why it was rejected.
struct TokenDraft<'a> {
    name: &'a str,
    scope: &'a str,
    users: &'a str,
    user: &'a str,
    tools: &'a str,
    days: &'a str,
    /// The name of the rejected value, if known, and the error message.
    fault: Option<(Option<&'static str>, String)>,
}

/// The values of the field that selects the users of a token.
const NO_USER: &str = "none";
const SINGLE_USER: &str = "single";
const ANY_USER: &str = "any";

impl<'a> TokenDraft<'a> {
    fn from_form(form: &'a FormFields) -> Self {
        let text = |name| form.text(name).unwrap_or_default();
        Self {
            name: text("name"),
            scope: text("scope"),
            users: text("users"),
            user: text("user"),
            tools: text("tools"),
            days: text("expiry"),
            fault: None,
        }
    }

    /// Returns the token that the form describes.
    fn to_token(&self) -> Result<NewAccessToken, TokenError> {
        let scope = Scope::parse(self.scope)
            .ok_or_else(|| TokenError::invalid("scope", "select a scope"))?;
        let users = match (self.users, self.user) {
            (SINGLE_USER, user) => Users::SingleUser(
                tokens::parse_user(user).map_err(|message| TokenError::invalid("user", message))?,
            ),
            (NO_USER, "") => Users::NoUser,
            (ANY_USER, "") => Users::AnyUser,
            (NO_USER | ANY_USER, _) => {
                let message = "a name is used only if the token acts for one user: select this, or \
                               leave the name empty";
                return Err(TokenError::invalid("user", message));
            }
            _ => return Err(TokenError::invalid("users", "select the users")),
        };
        let tools = match self.tools {
            "" => AllowedTools::default(),
            list => tokens::parse_tools(list)
                .map_err(|message| TokenError::invalid("tools", message))?,
        };
        let expires_at = match self.days {
            "" => None,
            days => {
                let days = tokens::parse_days(days)
                    .map_err(|message| TokenError::invalid("expiry", message))?;
                Some(tokens::expiry_after_days(days))
            }
        };
        Ok(NewAccessToken {
            name: self.name.to_owned(),
            scope,
            users,
            tools,
            expires_at,
        })
    }
}

async fn new(State(console): State<Console>, visitor: Visitor) -> PageResult {
    visitor.require(Scope::Admin)?;
    let own_tools = tool_list(&visitor.grant().tools);
    let only_user = visitor.grant().only_user();
    let draft = TokenDraft {
        name: "",
        scope: Scope::Execute.as_str(),
        users: if only_user.is_some() {
            SINGLE_USER
        } else {
            NO_USER
        },
        user: only_user.unwrap_or_default(),
        tools: own_tools.as_deref().unwrap_or_default(),
        days: "90",
        fault: None,
    };
    Ok(new_token_page(&console, &visitor, &draft))
}

fn new_token_page(console: &Console, visitor: &Visitor, draft: &TokenDraft<'_>) -> Markup {
    const FIELDS: [&str; 6] = ["name", "scope", "users", "user", "tools", "expiry"];
    let fault = |field: &str| {
        let (faulty_field, message) = draft.fault.as_ref()?;
        (*faulty_field == Some(field)).then_some(message.as_str())
    };
    let general_fault = draft
        .fault
        .as_ref()
        .filter(|(field, _)| field.is_none_or(|field| !FIELDS.contains(&field)));
    let scopes = vec![
        ("read", "read: lists, records and status"),
        ("execute", "execute: also call tools"),
        ("approve", "approve: also decide on approvals"),
        ("admin", "admin: everything, including access tokens"),
    ];
    let mut users = vec![(SINGLE_USER, "one user")];
    if visitor.grant().only_user().is_none() {
        users.insert(0, (NO_USER, "no user"));
        users.push((ANY_USER, "every user that a request names"));
    }
    let scope_control = FormControl::Select {
        value: draft.scope,
        options: scopes,
    };
    let users_control = FormControl::Select {
        value: draft.users,
        options: users,
    };
    let days_control = FormControl::Number { value: draft.days };
    let body = html! {
        (listener_notice(console))
        @if let Some((_, message)) = general_fault { (notice(Tone::Bad, untrusted(message))) }
        section .card { form .content method="post" action=(visitor.href("access/new")) {
            (hidden_fields(visitor))
            (Field::text("name", "Name", draft.name).with_hint("Unique among all tokens, including revoked ones.").with_fault(fault("name")).render())
            (Field::new("scope", "Scope", scope_control).with_hint("Each scope includes the previous ones.").with_fault(fault("scope")).render())
            (Field::new("users", "Acts for", users_control).with_hint("“Every user” is for an application that authenticates its users. With the scope admin, “no user” means every user, too.").with_fault(fault("users")).render())
            (Field::text("user", "User", draft.user).with_hint("The only user, if the token acts for one user.").with_fault(fault("user")).render())
            (Field::text("tools", "Allowed tools", draft.tools).with_hint("Names, or prefixes followed by *, separated by commas without spaces, such as get_time,far_*. Empty: every tool.").with_fault(fault("tools")).render())
            (Field::new("expiry", "Expires after days", days_control).with_hint("Empty: never.").with_fault(fault("expiry")).render())
            div .row {
                button .primary type="submit" { "Create" }
                a .button href=(visitor.href("access")) { "Cancel" }
            }
        } }
    };
    Page::new("Create a token", Section::Access, body).render(visitor)
}

async fn create(
    State(console): State<Console>,
    visitor: Visitor,
    form: FormFields,
) -> Result<Response> {
    visitor.require(Scope::Admin)?;
    let mut draft = TokenDraft::from_form(&form);
    let creation = match draft.to_token() {
        Ok(new_token) => create_token(&console, &visitor, new_token).await,
        Err(error) => Err(error.into()),
    };
    match creation {
        Ok(created_token) => Ok(created_page(&console, &visitor, &created_token).into_response()),
        Err(CreationError::Token(error)) => {
            draft.fault = Some((error.field(), error.to_string()));
            let status = RequestError::from(error).status();
            let page = new_token_page(&console, &visitor, &draft);
            Ok((status, page).into_response())
        }
        Err(CreationError::NoStore(message)) => {
            draft.fault = Some((None, message));
            let page = new_token_page(&console, &visitor, &draft);
            Ok((StatusCode::SERVICE_UNAVAILABLE, page).into_response())
        }
    }
}

/// Why no token was created.
pub(super) enum CreationError {
    /// The sidecar has no store.
    NoStore(String),
    /// The token was rejected, or cannot be stored.
    Token(TokenError),
}

impl From<TokenError> for CreationError {
    fn from(error: TokenError) -> Self {
        Self::Token(error)
    }
}

impl From<CreationError> for PageError {
    fn from(error: CreationError) -> Self {
        match error {
            CreationError::NoStore(message) => Self::Rejected {
                status: StatusCode::SERVICE_UNAVAILABLE,
                message,
            },
            CreationError::Token(error) => error.into(),
        }
    }
}

/// Creates a token with at most the permission of the visitor.
pub(super) async fn create_token(
    console: &Console,
    visitor: &Visitor,
    new_token: NewAccessToken,
) -> Result<CreatedToken, CreationError> {
    let store = require_store(&console.gateway)
        .map_err(|error| CreationError::NoStore(error.to_string()))?;
    let gate = console.gate.as_deref();
    let configured = gate.map(AccessGate::configured_grants).unwrap_or_default();
    let created_token = tokens::create(&*store, visitor.grant(), &configured, new_token).await?;
    Ok(created_token)
}

/// Shows a new token. This response is the only one that contains the token.
fn created_page(console: &Console, visitor: &Visitor, created_token: &CreatedToken) -> Markup {
    let token_name = &created_token.record.name;
    let body = html! {
        (listener_notice(console))
        (notice(Tone::Good, html! { "The token " (name(token_name)) " was created. Copy the token now: Pillion stores only its hash, and cannot show the token again." }))
        (card("The token", None, html! { div .content { (copyable("token", created_token.token.expose())) } }))
        p { a href=(token_url(visitor, "access/token", token_name)) { "What the token may see" } " · " a href=(visitor.href("connect")) { "Configure a client" } " · " a href=(visitor.href("access")) { "All tokens" } }
    };
    Page::new("The token was created", Section::Access, body).render(visitor)
}

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

async fn show_token(
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

async fn confirm_revocation(
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

async fn revoke(
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

#[cfg(test)]
mod tests {
    use super::*;

    fn token(body: &str) -> Result<NewAccessToken, TokenError> {
        let form = FormFields::parse(body.as_bytes()).unwrap();
        TokenDraft::from_form(&form).to_token()
    }

    #[test]
    fn the_form_describes_a_token() {
        let new_token =
            token("name=bot&scope=execute&users=single&user=ada&tools=get_time%2Cfar_*&expiry=30")
                .unwrap();
        assert_eq!(new_token.name, "bot");
        assert_eq!(new_token.scope, Scope::Execute);
        assert_eq!(new_token.users, Users::SingleUser("ada".to_owned()));
        assert_eq!(tool_list(&new_token.tools).unwrap(), "get_time,far_*");
        assert!(new_token.expires_at.is_some());
        let new_token = token("name=bot&scope=read&users=none&user=&tools=&expiry=").unwrap();
        assert_eq!(new_token.users, Users::NoUser);
        assert_eq!(tool_list(&new_token.tools), None);
        assert_eq!(new_token.expires_at, None);
    }

    #[test]
    fn a_missing_or_invalid_value_never_means_more_permission() {
        for (body, field) in [
            ("name=bot", "scope"),
            ("name=bot&scope=all&users=none", "scope"),
            ("name=bot&scope=read", "users"),
            ("name=bot&scope=read&users=x", "users"),
            ("name=bot&scope=read&users=single", "user"),
            ("name=bot&scope=read&users=none&user=ada", "user"),
            ("name=bot&scope=read&users=any&user=ada", "user"),
            ("name=bot&scope=read&users=none&tools=a,+b", "tools"),
            ("name=bot&scope=read&users=none&tools=,", "tools"),
            ("name=bot&scope=read&users=none&expiry=0", "expiry"),
            ("name=bot&scope=read&users=none&expiry=soon", "expiry"),
        ] {
            let error = token(body).unwrap_err();
            assert_eq!(error.field(), Some(field), "{body}: {error}");
        }
    }

    #[test]
    fn a_list_has_pages() {
        let rows: Vec<_> = (0..45).collect();
        let page = |query: &str| {
            let query = FormFields::parse(query.as_bytes()).unwrap();
            let page = select_rows(&rows, 20, "access", &query, "tokens");
            (page.shown.to_vec(), page.links.into_string())
        };
        let (shown, links) = page("name=a&tokens=1");
        assert_eq!(shown, rows[20..40]);
        assert!(links.contains("access?name=a&amp;tokens=2"), "{links}");
        assert!(links.contains("access?name=a&amp;tokens=0"), "{links}");
        assert_eq!(page("").0.len(), 20);
        assert_eq!(page("tokens=2").0, rows[40..]);
        assert!(page("tokens=18446744073709551615").0.is_empty());
    }
}
