//! The MCP servers: a list with their states, and pages on which they are added and changed.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use pillion_gateway::access::Scope;
use pillion_management::servers::{ServerError, Servers, run_to_completion};
use pillion_wire::{ServerEntry, ServerTrial};
use serde_json::{Map, Value};

use super::{PageResult, redirect_to};
use crate::Console;
use crate::error::{PageError, Result};
use crate::form::FormFields;
use crate::ui::{
    Field, FormControl, Page, Tone, action_form, badge, card, count, empty_state, encode_segment,
    facts, hidden_fields, name, notice, number, status_badge, time, untrusted, untrusted_beginning,
};
use crate::visitor::{Section, Visitor};

/// Maximum length of an error in the list, in bytes.
const MAX_ERROR_BYTES: usize = 300;

fn require_servers(console: &Console) -> Result<Arc<Servers>, ServerError> {
    console.servers.clone().ok_or(ServerError::NoStore)
}

pub(super) async fn list(State(console): State<Console>, visitor: Visitor) -> PageResult {
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
            th scope="row" { a href=(visitor.href(&format!("servers/{}", encode_segment(&server.id)))) { (untrusted(&server.name)) } }
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

pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> PageResult {
    let server = require_servers(&console)?.entry(&id, &console.gateway)?;
    Ok(server_page(&visitor, &server, None))
}

fn server_page(visitor: &Visitor, server: &ServerEntry, trial: Option<&ServerTrial>) -> Markup {
    let is_stored = server.origin == "store";
    let text = |text: &Option<String>| text.as_deref().map(untrusted);
    let details = facts([
        ("Status", Some(server_status(server))),
        ("Error", text(&server.error)),
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
    let path = format!("servers/{}", encode_segment(&server.id));
    let body = html! {
        @if let Some(description) = &server.description { p .lead { (untrusted(description)) } }
        @if let Some(trial) = trial { (trial_notice(trial)) }
        div #server data-live-part { (card("The server", None, html! { div .content { (details) } })) }
        @if visitor.may(Scope::Admin) {
            (card("Actions", None, html! {
                div .content { div .row {
                    (action_form(visitor, &format!("{path}/test"), "Test the connection", ""))
                    (action_form(visitor, &format!("{path}/reconnect"), "Connect again", ""))
                    @if is_stored {
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
            html! { "The connection failed after " (duration) ": " (untrusted(error)) },
        ),
        None => notice(
            Tone::Good,
            html! {
                "Connected in " (duration)
                @if let Some(server) = &trial.server { " to " (untrusted(server)) }
                ": " (count(trial.tools.len() as u64, "tool")) "."
                @if !trial.tools.is_empty() { details { summary { "Tools" } ul { @for tool in &trial.tools { li { (name(tool)) } } } } }
            },
        ),
    }
}

/// The form of a new server: what was typed, why it was rejected, and the outcome of a test.
#[derive(Default)]
struct NewServer<'a> {
    name: &'a str,
    url: &'a str,
    description: &'a str,
    fault: Option<(String, String)>,
    trial: Option<ServerTrial>,
}

pub(super) async fn new(visitor: Visitor) -> PageResult {
    visitor.require(Scope::Admin)?;
    Ok(new_server_page(&visitor, &NewServer::default()))
}

fn new_server_page(visitor: &Visitor, draft: &NewServer<'_>) -> Markup {
    let fault = |key: &str| {
        draft
            .fault
            .as_ref()
            .filter(|(faulty_key, _)| faulty_key == key)
            .map(|(_, message)| message.as_str())
    };
    let general_fault = draft
        .fault
        .as_ref()
        .filter(|(key, _)| !["name", "url", "token"].contains(&key.as_str()));
    let body = html! {
        @if let Some((key, message)) = general_fault { (notice(Tone::Bad, untrusted(&format!("{key}: {message}")))) }
        @if let Some(trial) = &draft.trial { (trial_notice(trial)) }
        section .card { form .content method="post" action=(visitor.href("servers")) {
            (hidden_fields(visitor))
            (Field::text("name", "Name", draft.name).with_hint("Also the beginning of its tools' names.").with_fault(fault("name")).render())
            (Field::text("url", "URL", draft.url).with_hint("Such as https://mcp.example.com/mcp").with_fault(fault("url")).render())
            (Field::text("description", "Description", draft.description).render())
            (Field::new("token", "Bearer token", FormControl::Secret).with_hint("Encrypted in the store, and never shown again.").with_fault(fault("token")).render())
            div .row {
                button type="submit" name="action" value="test" { "Test and list the tools" }
                button .primary type="submit" name="action" value="add" { "Add" }
            }
        } }
    };
    Page::new("Add a server", Section::Servers, body).render(visitor)
}

pub(super) async fn add(
    State(console): State<Console>,
    visitor: Visitor,
    form: FormFields,
) -> Result<Response> {
    visitor.require(Scope::Admin)?;
    let servers = require_servers(&console)?;
    let text = |name| form.get(name).map(str::trim).unwrap_or_default();
    let mut draft = NewServer {
        name: text("name"),
        url: text("url"),
        description: text("description"),
        ..NewServer::default()
    };
    let mut keys = Map::new();
    for key in ["name", "url", "description"] {
        if let Some(value) = form.text(key) {
            keys.insert(key.to_owned(), Value::from(value));
        }
    }
    if let Some(token) = form.text("token") {
        keys.insert(
            "authentication".to_owned(),
            serde_json::json!({"type": "bearer", "token": token}),
        );
    }
    if draft.name.is_empty() {
        draft.fault = Some(("name".to_owned(), "Server name is required".to_owned()));
    } else if draft.url.is_empty() {
        draft.fault = Some((
            "url".to_owned(),
            "Valid URL is required for HTTP transport".to_owned(),
        ));
    } else if form.get("action") == Some("test") {
        match servers.test_unsaved(keys).await {
            Ok(trial) => draft.trial = Some(trial),
            Err(error) => draft.fault = Some(fault_of(&error)),
        }
    } else {
        match run_to_completion(async move { servers.add(keys).await }).await {
            Ok(id) => {
                return Ok(redirect_to(
                    &visitor.href(&format!("servers/{}", encode_segment(&id))),
                ));
            }
            Err(error) => draft.fault = Some(fault_of(&error)),
        }
    }
    Ok(new_server_page(&visitor, &draft).into_response())
}

/// Returns the key that an error is about, and its message.
fn fault_of(error: &ServerError) -> (String, String) {
    match error {
        ServerError::Invalid { key, message } => (key.clone(), message.clone()),
        ServerError::NameTaken { .. } => ("name".to_owned(), error.to_string()),
        _ => ("server".to_owned(), error.to_string()),
    }
}

pub(super) async fn act(
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
            return Ok(server_page(&visitor, &server, Some(&trial)).into_response());
        }
        "reconnect" => {
            let key = id.clone();
            run_to_completion(async move { servers.reconnect(&key).await }).await?;
        }
        "enable" | "disable" => {
            let (key, is_enabled) = (id.clone(), action == "enable");
            run_to_completion(async move { servers.set_enabled(&key, is_enabled).await }).await?;
        }
        _ => return Err(PageError::NotFound("There is no such action.")),
    }
    Ok(redirect_to(
        &visitor.href(&format!("servers/{}", encode_segment(&id))),
    ))
}

pub(super) async fn confirm_removal(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> PageResult {
    visitor.require(Scope::Admin)?;
    let server = require_servers(&console)?.entry(&id, &console.gateway)?;
    let path = format!("servers/{}", encode_segment(&server.id));
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

pub(super) async fn remove(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response> {
    visitor.require(Scope::Admin)?;
    let servers = require_servers(&console)?;
    run_to_completion(async move { servers.remove(&id).await }).await?;
    Ok(redirect_to(&visitor.href("servers")))
}
