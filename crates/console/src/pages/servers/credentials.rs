//! The page with the credentials for a server: the server's own credential, and those of its users.
//! Secrets are never shown.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use pillion_gateway::access::Scope;
use pillion_management::servers::{
    AuthorizationState, ServerError, UpdateMode, UserCredentialPage, UserCredentialState,
    run_to_completion,
};
use pillion_wire::ServerEntry;
use serde_json::{Map, Value};

use super::authentication::{self, Kinds};
use super::form::Fault;
use super::{require_servers, server_path};
use crate::Console;
use crate::error::{PageError, Result};
use crate::form::{FormFields, QueryFields};
use crate::pages::{PageResult, redirect_to};
use crate::ui::{
    Field, Page, Tone, action_form, badge, card, empty_state, facts, hidden_fields, name, notice,
    time, untrusted, with_query,
};
use crate::visitor::{Section, Visitor};

/// What the page shows besides the credentials.
#[derive(Default)]
struct Draft<'a> {
    /// The user whose credential the form sets.
    user: &'a str,
    /// The last user of the previous page of the list.
    after: Option<&'a str>,
    typed: Option<&'a FormFields>,
    fault: Option<Fault>,
    /// Whether a login was completed.
    is_logged_in: bool,
}

/// The server whose credentials a page shows.
struct CredentialServer {
    entry: ServerEntry,
    /// Whether a person can log in at the server's authorization server.
    has_login: bool,
}

impl CredentialServer {
    fn path(&self) -> String {
        format!("{}/credentials", server_path(&self.entry.id))
    }

    fn login_path(&self) -> String {
        format!("{}/login", server_path(&self.entry.id))
    }
}

pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
    QueryFields(query): QueryFields,
) -> PageResult {
    visitor.require(Scope::Admin)?;
    let draft = Draft {
        user: query.get("user").unwrap_or_default(),
        after: query.get("after"),
        is_logged_in: query.get("login") == Some("done"),
        ..Draft::default()
    };
    Box::pin(page(&console, &visitor, &id, &draft)).await
}

/// Sets or removes a credential.
pub(super) async fn change(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
    form: FormFields,
) -> Result<Response> {
    visitor.require(Scope::Admin)?;
    let servers = require_servers(&console)?;
    let location = visitor.href(&format!("{}/credentials", server_path(&id)));
    let (key, grant) = (id.clone(), visitor.grant().clone());
    match form.get("action").unwrap_or_default() {
        "set" => {
            let fault = match authentication::parse(&form) {
                Err(fault) => fault,
                Ok(authentication) => {
                    let value = authentication.unwrap_or(Value::Null);
                    let keys = Map::from_iter([("authentication".to_owned(), value)]);
                    let user = form.text("user").unwrap_or_default().to_owned();
                    let set_future =
                        async move { servers.set_credential(&grant, &key, &user, keys).await };
                    match run_to_completion(set_future).await {
                        Ok(_) => return Ok(redirect_to(&location)),
                        Err(error) => Fault::from(&error),
                    }
                }
            };
            let status = fault.status;
            let draft = Draft {
                user: form.get("user").unwrap_or_default(),
                typed: Some(&form),
                fault: Some(fault),
                ..Draft::default()
            };
            let rejected_page = Box::pin(page(&console, &visitor, &id, &draft)).await?;
            return Ok((status, rejected_page).into_response());
        }
        "remove" => {
            let user = form.get("user").unwrap_or_default().to_owned();
            let remove = async move { servers.remove_credential(&grant, &key, &user).await };
            run_to_completion(remove).await?;
        }
        "remove-own" => {
            let keys = Map::from_iter([("authentication".to_owned(), Value::Null)]);
            let remove = async move { servers.change(&key, keys, UpdateMode::Patch).await };
            run_to_completion(remove).await?;
        }
        "remove-login" => {
            run_to_completion(async move { servers.remove_login(&key).await }).await?;
        }
        _ => return Err(PageError::NotFound("There is no such action.")),
    }
    Ok(redirect_to(&location))
}

async fn page(console: &Console, visitor: &Visitor, id: &str, draft: &Draft<'_>) -> PageResult {
    let servers = require_servers(console)?;
    let server = CredentialServer {
        entry: servers.entry(id, &console.gateway)?,
        has_login: servers.needs_login(id)?,
    };
    let login_state = servers.login_state(id).await;
    let users = servers
        .credential_page(visitor.grant(), id, draft.after)
        .await;
    let is_field = |name: &str| name == "user" || authentication::FIELDS.contains(&name);
    let fault = draft.fault.as_ref();
    let general_fault = fault.filter(|fault| !is_field(&fault.field));
    let body = html! {
        @if draft.is_logged_in { (notice(Tone::Good, html! { "The login is complete. The tokens are in the vault." })) }
        @if let Some(fault) = general_fault { (notice(Tone::Bad, untrusted(&fault.message))) }
        (own_card(visitor, &server, &login_state))
        (users_card(visitor, &server, &users, draft.after))
        @if server.entry.credential != "shared" { (set_card(visitor, &server, draft)) }
    };
    let back = html! {
        a .button href=(visitor.href(&server_path(&server.entry.id))) { "Back to the server" }
    };
    let title = format!("Credentials for {}", server.entry.name);
    let page = Page::new(&title, Section::Servers, body).with_actions(back);
    Ok(page.render(visitor))
}

/// Shows the credential that the calls of all users share.
fn own_card(
    visitor: &Visitor,
    server: &CredentialServer,
    login_state: &Result<Option<AuthorizationState>, ServerError>,
) -> Markup {
    let entry = &server.entry;
    let kind = entry.authentication.kind.as_str();
    let is_changeable = entry.origin == "store" && entry.command.is_none();
    let state = login_state.as_ref().ok().and_then(Option::as_ref);
    let headers = (!entry.headers.is_empty()).then(|| untrusted(&entry.headers.join(", ")));
    let content = html! {
        div .content {
            (facts([
                ("Credential", Some(name(kind))),
                ("Login", state.map(authorization_state)),
                ("Headers", headers),
            ]))
            @if let Err(error) = login_state { (notice(Tone::Bad, untrusted(&error.to_string()))) }
            @if server.has_login { p .muted.small { "A login authorizes the calls of all users without a separate credential." } }
            div .row {
                @if server.has_login {
                    @let label = if state == Some(&AuthorizationState::Missing) { "Log in" } else { "Log in again" };
                    (action_form(visitor, &server.login_path(), label, "primary"))
                    @if state.is_some_and(|state| *state != AuthorizationState::Missing) {
                        (row_action(visitor, &server.path(), "remove-login", "Remove the login"))
                    }
                }
                @if is_changeable {
                    @let edit = visitor.href(&format!("{}/edit#credential-fields", server_path(&entry.id)));
                    a .button href=(edit) { @if kind == "none" { "Set a credential" } @else { "Replace the credential" } }
                    @if kind != "none" { (row_action(visitor, &server.path(), "remove-own", "Remove the credential")) }
                }
            }
            @if !is_changeable { p .muted.small { "The credential is set by the operator: in the configuration file, or with " code { "pillion servers" } "." } }
        }
    };
    card("The server's credential", None, content)
}

/// Shows the users with a credential.
fn users_card(
    visitor: &Visitor,
    server: &CredentialServer,
    users: &Result<UserCredentialPage, ServerError>,
    after: Option<&str>,
) -> Markup {
    let is_shared = server.entry.credential == "shared";
    let path = visitor.href(&server.path());
    let content = match users {
        Err(error) => html! {
            div .content { (notice(Tone::Bad, untrusted(&error.to_string()))) }
        },
        Ok(page) if page.users.is_empty() => {
            let next_step = if is_shared {
                "The calls of all users use the server's credential. Choose otherwise under “Calls \
                 use” in the settings of the server."
            } else {
                "Set the credential of a user below."
            };
            empty_state("No user has a credential", html! { (next_step) })
        }
        Ok(page) => html! {
            @if is_shared { div .content { (notice(Tone::Warning, html! { "These credentials are not used: the calls of all users use the server's credential." })) } }
            div .scroll { table {
                thead { tr { th { "User" } th { "Credential" } th { "State" } th { "Set" } th { "Actions" } } }
                tbody { @for user in &page.users { (user_row(visitor, server, user)) } }
            } }
            @let next = page.next.as_deref().map(|next| with_query(&path, [("after", next)]));
            @if after.is_some() || next.is_some() {
                nav .pages aria-label="Pages" {
                    span { @if after.is_some() { a href=(path) { "← First" } } }
                    span { @if let Some(next) = next { a href=(next) rel="next" { "More →" } } }
                }
            }
        },
    };
    card("Credentials of users", None, content)
}

fn user_row(
    visitor: &Visitor,
    server: &CredentialServer,
    credential: &UserCredentialState,
) -> Markup {
    let entry = &credential.entry;
    let user = entry.user.as_str();
    let path = server.path();
    let replace = with_query(&visitor.href(&path), [("user", user)]);
    html! {
        tr data-row {
            th scope="row" { (untrusted(user)) }
            td { (name(&entry.authentication)) }
            td {
                @if credential.is_for_other_address { (badge(Tone::Warning, "not used")) p .small { "Was set for another address of the server: set the credential again." } }
                @else if let Some(state) = &credential.authorization { (authorization_state(state)) }
                @else { (badge(Tone::Good, "set")) }
            }
            td .time { (time(&entry.set_at)) }
            td { div .row {
                @if server.has_login { (user_form(visitor, &server.login_path(), user, None, "Log in")) }
                a .button href={ (replace) "#set" } { "Replace" }
                (user_form(visitor, &path, user, Some("remove"), "Remove"))
            } }
        }
    }
}

/// Shows the form that sets the credential of a user.
fn set_card(visitor: &Visitor, server: &CredentialServer, draft: &Draft<'_>) -> Markup {
    let value = |field: &str| {
        let typed = draft.typed.and_then(|form| form.get(field));
        typed.unwrap_or_default().to_owned()
    };
    let fault = |field: &str| draft.fault.as_ref().and_then(|fault| fault.at(field));
    let content = html! {
        form #set .content method="post" action=(visitor.href(&server.path())) {
            (hidden_fields(visitor))
            @if let Some(only_user) = visitor.grant().only_user() {
                input type="hidden" name="user" value=(only_user);
                p { "For " strong { (untrusted(only_user)) } }
            } @else {
                (Field::text("user", "User", draft.user).with_hint("As named in calls").with_fault(fault("user")).render())
            }
            (authentication::fields(Kinds::OfUser, value, fault))
            div .row {
                button .primary type="submit" name="action" value="set" { "Set the credential" }
                @if server.has_login { button type="submit" formaction=(visitor.href(&server.login_path())) { "Log in as this user" } }
            }
            p .muted.small { "The credential is sent only to the current scheme, host and port of the server." }
        }
    };
    card("Set the credential of a user", None, content)
}

fn authorization_state(state: &AuthorizationState) -> Markup {
    match state {
        AuthorizationState::Missing => badge(Tone::Bad, "not logged in"),
        AuthorizationState::Expired => badge(Tone::Warning, "expired"),
        AuthorizationState::Active {
            is_renewable: true, ..
        } => {
            html! { (badge(Tone::Good, "logged in")) " " span .small { "renewed by the sidecar" } }
        }
        AuthorizationState::Active {
            is_renewable: false,
            expires_at,
        } => html! {
            (badge(Tone::Good, "logged in"))
            @if let Some(expires_at) = expires_at { " " span .small { "until " (time(expires_at)) } }
        },
    }
}

/// Shows a button that removes something of the server.
fn row_action(visitor: &Visitor, path: &str, action: &str, label: &str) -> Markup {
    html! {
        form .inline method="post" action=(visitor.href(path)) {
            (hidden_fields(visitor))
            button .danger type="submit" name="action" value=(action) { (label) }
        }
    }
}

/// Shows a button for the credential of a user.
fn user_form(
    visitor: &Visitor,
    path: &str,
    user: &str,
    action: Option<&str>,
    label: &str,
) -> Markup {
    let class = action.map(|_| "danger");
    html! {
        form .inline method="post" action=(visitor.href(path)) {
            (hidden_fields(visitor))
            input type="hidden" name="user" value=(user);
            button class=[class] type="submit" name="action" value=[action] aria-label={ (label) ": " (user) } { (label) }
        }
    }
}
