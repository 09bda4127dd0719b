//! The MCP servers: a list with their states, and pages on which they are added and changed.

mod authentication;
mod credentials;
mod edit;
mod form;
mod login;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use maud::{Markup, html};
use pillion_gateway::access::Scope;
use pillion_management::servers::run_to_completion;
use pillion_wire::{ServerEntry, ServerTrial};

use super::tools::call_context;
use super::{PageResult, redirect_to, require_servers};
use crate::Console;
use crate::error::{PageError, Result};
use crate::form::FormFields;
use crate::ui::{
    Page, Tone, action_form, badge, card, count, empty_state, encode_segment, facts, name, notice,
    number, status_badge, time, untrusted, untrusted_beginning,
};
use crate::visitor::{Section, Visitor};
use form::{Fault, ServerForm};
pub(crate) use login::OAUTH_CALLBACK_PATH;

/// Maximum length of an error in the list, in bytes.
const MAX_ERROR_BYTES: usize = 300;

/// Maximum length of an error on the page of a server, in bytes.
const MAX_LONG_ERROR_BYTES: usize = 2_000;

/// Maximum number of tools in the outcome of a test.
const MAX_TRIAL_TOOLS: usize = 100;

/// Maximum length of a name in the outcome of a test, in bytes.
const MAX_TRIAL_NAME_BYTES: usize = 130;

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route("/servers", get(list).post(add))
        .route("/servers/new", get(new))
        .route("/servers/{id}", get(show))
        .route("/servers/{id}/edit", get(edit::show).post(edit::save))
        .route(
            "/servers/{id}/credentials",
            get(credentials::show).post(credentials::change),
        )
        .route("/servers/{id}/login", post(login::begin))
        .route("/servers/{id}/remove", get(confirm_removal).post(remove))
        .route("/servers/{id}/{action}", post(act))
        .route(OAUTH_CALLBACK_PATH, get(login::receive_redirect))
        .route("/oauth/finish", get(login::finish))
}

/// Returns the path of the page of the server with this ID, below the console.
fn server_path(id: &str) -> String {
    format!("servers/{}", encode_segment(id))
}

async fn list(State(console): State<Console>, visitor: Visitor) -> PageResult {
    let servers = require_servers(&console)?.entries(&console.gateway);
    let body = html! {
        section #servers .card data-live-part {
            @if servers.is_empty() {
                (empty_state("No MCP servers", html! { @if visitor.may(Scope::Admin) { a href=(visitor.href("servers/new")) { "Add the first one" } } }))
            } @else {
                div .scroll { table {
                    thead { tr { th { "Server" } th { "Status" } th { "Address" } th .number { "Tools" } th .number { "Calls" } th .number { "Failed" } } }
                    tbody { @for server in &servers { (row(&visitor, server)) } }
                } }
            }
        }
    };
    let actions = visitor
        .may(Scope::Admin)
        .then(|| html! { a .button.primary href=(visitor.href("servers/new")) { "Add a server" } });
    let page = Page::new("Servers", Section::Servers, body)
        .with_live("server")
        .with_actions(actions);
    Ok(page.render(&visitor))
}

fn row(visitor: &Visitor, server: &ServerEntry) -> Markup {
    html! {
        tr data-row {
            th scope="row" { a href=(visitor.href(&server_path(&server.id))) { (untrusted(&server.name)) } }
            td { (server_status(server)) @if let Some(error) = &server.error { p .small { (untrusted_beginning(error, MAX_ERROR_BYTES)) } } }
            td { @if let Some(address) = address(server) { (name(address)) } }
            td .number { (number(server.tool_count as u64)) }
            td .number { (number(server.calls.total)) }
            td .number { (number(server.calls.failed)) }
        }
    }
}

fn server_status(server: &ServerEntry) -> Markup {
    match server.enabled {
        true => status_badge(&server.status),
        false => badge(Tone::Neutral, "disabled"),
    }
}

fn address(server: &ServerEntry) -> Option<&str> {
    server.url.as_deref().or(server.command.as_deref())
}

async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> PageResult {
    let servers = require_servers(&console)?;
    let server = servers.entry(&id, &console.gateway)?;
    let has_login = servers.needs_login(&id)?;
    Ok(server_page(&visitor, &server, has_login, None))
}

/// Shows a server. `has_login` is whether a person can log in at the server's authorization server.
fn server_page(
    visitor: &Visitor,
    server: &ServerEntry,
    has_login: bool,
    trial: Option<&ServerTrial>,
) -> Markup {
    let is_stored = server.origin == "store";
    let text = |text: &Option<String>| text.as_deref().map(untrusted);
    let long_error = |error: &String| untrusted_beginning(error, MAX_LONG_ERROR_BYTES);
    let details = facts([
        ("Status", Some(server_status(server))),
        ("Error", server.error.as_ref().map(long_error)),
        ("Address", address(server).map(name)),
        ("Transport", Some(name(&server.transport))),
        ("Protocol version", text(&server.protocol_version)),
        ("Authentication", Some(name(&server.authentication.kind))),
        (
            "Headers",
            (!server.headers.is_empty()).then(|| untrusted(&server.headers.join(", "))),
        ),
        ("Credential", Some(untrusted(&server.credential))),
        ("Prefix of tool names", Some(name(&server.tool_prefix))),
        ("Needs approval", text(&server.require_approval)),
        ("Changed tools", text(&server.pin)),
        ("New tools", text(&server.new_tools)),
        (
            "Timeout",
            Some(html! { (crate::ui::millis(server.timeout as f64)) }),
        ),
        ("Tools", Some(html! { (number(server.tool_count as u64)) })),
        (
            "Calls",
            Some(
                html! { (number(server.calls.total)) ", " (number(server.calls.failed)) " failed" },
            ),
        ),
        ("Connected", server.last_connected_at.as_deref().map(time)),
        (
            "Defined in",
            Some(
                html! { @if is_stored { "the store" } @else { "the configuration file, where it is changed" } },
            ),
        ),
    ]);
    let path = server_path(&server.id);
    let body = html! {
        @if let Some(description) = &server.description { p .lead { (untrusted(description)) } }
        @if let Some(trial) = trial { (trial_notice(trial)) }
        div #server data-live-part { (card("The server", None, html! { div .content { (details) } })) }
        @if visitor.may(Scope::Admin) {
            (card("Actions", None, html! {
                div .content { div .row {
                    (action_form(visitor, &format!("{path}/test"), "Test the connection", ""))
                    (action_form(visitor, &format!("{path}/reconnect"), "Connect again", ""))
                    a .button href=(visitor.href(&format!("{path}/doctor"))) { "Examine the connection" }
                    @if has_login { (action_form(visitor, &format!("{path}/login"), "Log in", "")) }
                    a .button href=(visitor.href(&format!("{path}/credentials"))) { "Credentials" }
                    @if is_stored {
                        @if server.command.is_none() { a .button href=(visitor.href(&format!("{path}/edit"))) { "Edit" } }
                        @if server.enabled { (action_form(visitor, &format!("{path}/disable"), "Disable", "")) } @else { (action_form(visitor, &format!("{path}/enable"), "Enable", "primary")) }
                        a .button href=(visitor.href(&format!("{path}/remove"))) { "Remove …" }
                    }
                } }
            }))
        }
    };
    let page = Page::new(&server.name, Section::Servers, body).with_live("server,tools");
    page.render(visitor)
}

fn trial_notice(trial: &ServerTrial) -> Markup {
    let duration = crate::ui::millis(trial.duration_ms as f64);
    match &trial.error {
        Some(error) => notice(
            Tone::Bad,
            html! { "The connection failed after " (duration) ": " (untrusted_beginning(error, MAX_LONG_ERROR_BYTES)) },
        ),
        None => notice(
            Tone::Good,
            html! {
                "Connected in " (duration)
                @if let Some(server) = &trial.server { " to " (untrusted_beginning(server, MAX_ERROR_BYTES)) }
                ": " (count(trial.tools.len() as u64, "tool")) "."
                @if !trial.tools.is_empty() {
                    details { summary { "Tools" } ul {
                        @for tool in trial.tools.iter().take(MAX_TRIAL_TOOLS) { li { code { (untrusted_beginning(tool, MAX_TRIAL_NAME_BYTES)) } } }
                        @if trial.tools.len() > MAX_TRIAL_TOOLS { li .muted { "and " (number((trial.tools.len() - MAX_TRIAL_TOOLS) as u64)) " more" } }
                    } }
                }
            },
        ),
    }
}

async fn new(visitor: Visitor) -> PageResult {
    visitor.require(Scope::Admin)?;
    Ok(new_server_page(&visitor, &ServerForm::new(None, None)))
}

fn new_server_page(visitor: &Visitor, draft: &ServerForm<'_>) -> Markup {
    let body = html! {
        (draft.render(visitor, "servers"))
        p .muted.small { "Only the operator can add a server that is a program of this host: in the configuration file, or with " code { "pillion servers add NAME --command PROGRAM" } "." }
    };
    Page::new("Add a server", Section::Servers, body).render(visitor)
}

async fn add(
    State(console): State<Console>,
    visitor: Visitor,
    form: FormFields,
) -> Result<Response> {
    visitor.require(Scope::Admin)?;
    let servers = require_servers(&console)?;
    let mut draft = ServerForm::new(None, Some(&form));
    match draft.keys() {
        Err(fault) => draft.fault = Some(fault),
        Ok(keys) if form.get("action") == Some("test") => match servers.test_unsaved(keys).await {
            Ok(trial) => draft.trial = Some(trial),
            Err(error) => draft.fault = Some(Fault::from(&error)),
        },
        Ok(keys) => match run_to_completion(async move { servers.add(keys).await }).await {
            Ok(id) => return Ok(redirect_to(&visitor.href(&server_path(&id)))),
            Err(error) => draft.fault = Some(Fault::from(&error)),
        },
    }
    let status = draft.status();
    Ok((status, new_server_page(&visitor, &draft)).into_response())
}

async fn act(
    State(console): State<Console>,
    visitor: Visitor,
    Path((id, action)): Path<(String, String)>,
) -> Result<Response> {
    visitor.require(Scope::Admin)?;
    let servers = require_servers(&console)?;
    match action.as_str() {
        "test" => {
            let trial = servers.test_existing(&id).await?;
            let server = servers.entry(&id, &console.gateway)?;
            let has_login = servers.needs_login(&id)?;
            return Ok(server_page(&visitor, &server, has_login, Some(&trial)).into_response());
        }
        "reconnect" => {
            let (key, (context, _)) = (id.clone(), call_context(&visitor));
            let reconnect = async move {
                servers.reconnect(&key).await?;
                let Some(gateway) = servers.gateway() else {
                    return Ok(());
                };
                let server = servers.find_in_use(&key, &gateway)?;
                gateway.upstreams().connect(&server, &context).await;
                Ok(())
            };
            run_to_completion(reconnect).await?;
        }
        "enable" | "disable" => {
            let (key, is_enabled) = (id.clone(), action == "enable");
            run_to_completion(async move { servers.set_enabled(&key, is_enabled).await }).await?;
        }
        _ => return Err(PageError::NotFound("There is no such action.")),
    }
    Ok(redirect_to(&visitor.href(&server_path(&id))))
}

async fn confirm_removal(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> PageResult {
    visitor.require(Scope::Admin)?;
    let server = require_servers(&console)?.entry(&id, &console.gateway)?;
    let path = server_path(&server.id);
    let body = html! {
        section .card { div .content {
            p { "Removes the server " strong { (untrusted(&server.name)) } ", and with it:" }
            ul {
                li { (count(server.tool_count as u64, "tool")) ", which models can no longer call" }
                li { "its stored credentials, those of its users included" }
                li { "the accepted definitions of its tools" }
                li { "the records of its calls" }
            }
            div .row {
                (action_form(&visitor, &format!("{path}/remove"), "Remove the server", "danger"))
                a .button href=(visitor.href(&path)) { "Keep it" }
            }
        } }
    };
    Ok(Page::new("Remove a server", Section::Servers, body).render(&visitor))
}

async fn remove(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response> {
    visitor.require(Scope::Admin)?;
    let servers = require_servers(&console)?;
    run_to_completion(async move { servers.remove(&id).await }).await?;
    Ok(redirect_to(&visitor.href("servers")))
}
