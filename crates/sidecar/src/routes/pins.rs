//! Routes under `/api/v1/pins`: the accepted definitions of the tools of MCP servers.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::{Extension, Json};
use pillion_core::compute;
use pillion_core::store::{PinOwner, Store, ToolPin};
use pillion_wire::{AcceptPin, PinEntry, PinList, PinResponse, route};
use serde::Deserialize;
use serde_json::Value;

use super::body::{Body, BodyError};
use super::error::{CONFLICT, NOT_FOUND, RequestError, route_error};
use super::parameters::{Parameters, parsed};
use super::store::store_of;
use super::tagged::EntityTags;
use crate::app::App;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::pins;
use pillion_gateway::timestamp::format_timestamp;

route_error! {
    /// Why a pin is not shown or accepted.
    #[derive(Debug, thiserror::Error)]
    enum PinError {
        #[error("There is no pin for this tool")]
        Unknown => NOT_FOUND,
        #[error("{reason}")]
        Conflict { reason: String } => CONFLICT,
    }
}

/// The filter of the pin list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PinQuery {
    /// Only pins of this server, by label.
    server: Option<String>,
    /// Only pins of tools that are listed for this user alone.
    user: Option<String>,
    /// Only pins of changed tools.
    #[param(value_type = Option<bool>)]
    changed: Option<String>,
}

/// The query that names the user of a pin.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Owner {
    /// The user for whom the server lists the tool, if the server lists tools per user.
    user: Option<String>,
}

impl Owner {
    /// Returns the owner of the pin, if the client may see it.
    fn check<'a>(&'a self, server: &'a str, grant: &AccessGrant) -> Result<PinOwner<'a>, PinError> {
        let user = self.user.as_deref().filter(|user| !user.is_empty());
        may_see(grant, user)
            .then_some(PinOwner { server, user })
            .ok_or(PinError::Unknown)
    }
}

/// Returns whether the client may see the tools that a server lists for `user`: the client must be
/// allowed to act for the user.
fn may_see(grant: &AccessGrant, user: Option<&str>) -> bool {
    user.is_none_or(|user| grant.may_act_for(user))
}

/// List the pinned tool definitions of MCP servers.
///
/// Pins of a user's personal tools are visible only to clients that may act for that user.
#[utoipa::path(
    get,
    path = route::LIST_PINS.path,
    params(
        PinQuery,
        ("if-none-match" = Option<String>, Header, description = "The `ETag` of the client's copy of the list")
    ),
    responses(
        (status = 200, description = "The pins", body = PinList),
        (status = 304, description = "The list has not changed"),
        (status = 400, description = "A parameter is invalid"),
        (status = 503, description = "The store is not readable"),
    )
)]
pub(super) async fn list(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    Parameters(query): Parameters<PinQuery>,
    known: EntityTags,
) -> Result<Response, RequestError> {
    let changed = parsed("changed", query.changed.as_deref(), "true or false")?;
    let only_changed = changed.unwrap_or(false);
    let store = store_of(&app)?;
    let labels = match query.server {
        Some(label) => vec![label],
        None => {
            let servers = app.upstreams().servers().iter();
            servers.map(|server| server.label.clone()).collect()
        }
    };
    let mut listed = Vec::new();
    for label in labels {
        let pins = match query.user.as_deref().filter(|user| !user.is_empty()) {
            None => store.server_pins(&label).await?,
            user => {
                let server = &label;
                store.pins(PinOwner { server, user }).await?
            }
        };
        let shown = |pin: &ToolPin| {
            (!only_changed || pin.pending.is_some()) && may_see(&grant, pin.user.as_deref())
        };
        let visible: Vec<_> = pins.into_iter().filter(shown).collect();
        let bytes = visible.iter().map(pins::size).sum();
        let work = move || visible.iter().map(entry).collect::<Vec<_>>();
        listed.extend(compute::run(&label, bytes, work).await);
    }
    known.or(&PinList {
        success: true,
        pins: listed,
    })
}

/// Show the accepted definition of a tool, and the changes since then.
#[utoipa::path(
    get,
    path = route::SHOW_PIN.path,
    params(
        ("server" = String, Path, description = "The server's label"),
        ("tool" = String, Path, description = "The tool's name on the server"),
        Owner,
    ),
    responses(
        (status = 200, description = "The pin", body = PinResponse),
        (status = 404, description = "Pin not found"),
        (status = 503, description = "The store is not readable"),
    )
)]
pub(super) async fn show(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    path: Result<Path<(String, String)>, PathRejection>,
    Parameters(owner): Parameters<Owner>,
) -> Result<Json<PinResponse>, RequestError> {
    let Path((server, tool)) = path.map_err(|_| PinError::Unknown)?;
    let owner = owner.check(&server, &grant)?;
    show_pin(&*store_of(&app)?, owner, &tool).await
}

/// Accept the current definition of a tool.
///
/// Requests over TCP need a token with the scope `admin`.
#[utoipa::path(
    post,
    path = route::ACCEPT_PIN.path,
    params(
        ("server" = String, Path, description = "The server's label"),
        ("tool" = String, Path, description = "The tool's name on the server"),
        Owner,
    ),
    request_body(content = Option<AcceptPin>, content_type = "application/json"),
    responses(
        (status = 200, description = "The updated pin", body = PinResponse),
        (status = 400, description = "The request body is invalid"),
        (status = 404, description = "Pin not found"),
        (status = 409, description = "The definition has not changed, or `hash` is not that of the current definition"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(super) async fn accept(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    path: Result<Path<(String, String)>, PathRejection>,
    Parameters(owner): Parameters<Owner>,
    Body(body): Body,
) -> Result<Json<PinResponse>, RequestError> {
    let Path((server, tool)) = path.map_err(|_| PinError::Unknown)?;
    let owner = owner.check(&server, &grant)?;
    let AcceptPin { hash } = if body.trim_ascii().is_empty() {
        AcceptPin::default()
    } else {
        let body: Value = serde_json::from_slice(&body).map_err(BodyError::MalformedJson)?;
        serde_json::from_value::<Option<AcceptPin>>(body)
            .map_err(|_| RequestError::parameter("hash", "a string"))?
            .unwrap_or_default()
    };
    let store = store_of(&app)?;
    match pins::accept(&*store, owner, &tool, hash.as_deref()).await {
        Ok(()) => {}
        Err(error) if error.is_not_found() => return Err(PinError::Unknown.into()),
        Err(error) if error.is_conflict() => {
            let reason = error.to_string();
            return Err(PinError::Conflict { reason }.into());
        }
        Err(error) => return Err(error.into()),
    }
    tracing::info!(
        server.label = server,
        user = owner.user,
        tool.name = tool,
        "Accepted the changed definition of a tool"
    );
    app.upstreams().expire(&server);
    show_pin(&*store, owner, &tool).await
}

async fn show_pin(
    store: &dyn Store,
    owner: PinOwner<'_>,
    tool: &str,
) -> Result<Json<PinResponse>, RequestError> {
    let pin = store.pin(owner, tool).await?.ok_or(PinError::Unknown)?;
    let bytes = pins::size(&pin);
    let response = compute::run(owner.server, bytes, move || {
        let changes = match &pin.pending {
            Some(pending) => pins::between(&pin.definition, &pending.definition),
            None => Vec::new(),
        };
        PinResponse {
            success: true,
            definition: serde_json::from_str(&pin.definition).unwrap_or_default(),
            changes,
            pin: entry(&pin),
        }
    });
    Ok(Json(response.await))
}

fn entry(pin: &ToolPin) -> PinEntry {
    let pending = pin.pending.as_ref();
    let newest = pending.map_or(&pin.definition, |pending| &pending.definition);
    PinEntry {
        server: pin.server.clone(),
        user: pin.user.clone(),
        tool: pin.tool.clone(),
        status: pins::status(pin).to_owned(),
        hash: pin.hash.clone(),
        accepted_at: format_timestamp(pin.accepted_at),
        pending_hash: pending.map(|pending| pending.hash.clone()),
        pending_since: pending.map(|pending| format_timestamp(pending.seen_at)),
        warnings: pins::warnings(&serde_json::from_str(newest).unwrap_or_default()),
    }
}
