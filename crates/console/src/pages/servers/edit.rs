//! The page on which the settings of a server of the store are changed.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use pillion_gateway::access::Scope;
use pillion_management::servers::{EditableServer, UpdateMode, run_to_completion};

use super::form::{Fault, ServerForm};
use super::{require_servers, server_path};
use crate::Console;
use crate::error::Result;
use crate::form::FormFields;
use crate::pages::{PageResult, redirect_to};
use crate::ui::{Page, untrusted};
use crate::visitor::{Section, Visitor};

pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> PageResult {
    visitor.require(Scope::Admin)?;
    let server = require_servers(&console)?.editable(&id, &console.gateway)?;
    Ok(page(
        &visitor,
        &server,
        &ServerForm::new(Some(&server), None),
    ))
}

/// Tests or saves the typed settings.
pub(super) async fn save(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
    form: FormFields,
) -> Result<Response> {
    visitor.require(Scope::Admin)?;
    let servers = require_servers(&console)?;
    let server = servers.editable(&id, &console.gateway)?;
    let key = server.entry.id.clone();
    let is_current = form.get("version") == server.entry.updated_at.as_deref();
    let mut draft = ServerForm::new(Some(&server), Some(&form));
    match draft.keys() {
        Err(fault) => draft.fault = Some(fault),
        Ok(keys) if form.get("action") == Some("test") => {
            match servers.test_change(&key, keys).await {
                Ok(trial) => draft.trial = Some(trial),
                Err(error) => draft.fault = Some(Fault::from(&error)),
            }
        }
        Ok(_) if !is_current => {
            draft.fault = Some(Fault {
                status: StatusCode::CONFLICT,
                ..Fault::new(
                    "",
                    "The settings were changed after this page was loaded. Nothing was saved: \
                     compare your settings with the server's page, type secrets again, and save \
                     again.",
                )
            });
        }
        Ok(keys) if keys.is_empty() => {
            return Ok(redirect_to(&visitor.href(&server_path(&key))));
        }
        Ok(keys) => {
            let change = async move { servers.change(&key, keys, UpdateMode::Patch).await };
            match run_to_completion(change).await {
                Ok(id) => return Ok(redirect_to(&visitor.href(&server_path(&id)))),
                Err(error) => draft.fault = Some(Fault::from(&error)),
            }
        }
    }
    let status = draft.status();
    Ok((status, page(&visitor, &server, &draft)).into_response())
}

fn page(visitor: &Visitor, server: &EditableServer, draft: &ServerForm<'_>) -> Markup {
    let path = server_path(&server.entry.id);
    let body = html! {
        p .lead { "Changes the server " strong { (untrusted(&server.entry.name)) } ". Running calls finish with the previous settings." }
        (draft.render(visitor, &format!("{path}/edit")))
    };
    let back = html! { a .button href=(visitor.href(&path)) { "Back to the server" } };
    let page = Page::new("Edit a server", Section::Servers, body).with_actions(back);
    page.render(visitor)
}
