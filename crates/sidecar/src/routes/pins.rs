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

use super::error::{CONFLICT, NOT_FOUND, RequestError, Result, route_error};
use super::etag::EntityTags;
use super::extract::{Body, BodyError};
use super::parameters::{Parameters, parse_parameter};
use super::store::require_store;
use crate::app::App;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::pins;
use pillion_gateway::timestamp::format_timestamp;

route_error! {
    /// The reason why a pin is not shown or accepted.
    #[derive(Debug, thiserror::Error)]
    enum PinError {
        #[error("The path is not valid UTF-8")]
        InvalidPath => NOT_FOUND,
        #[error("There is no pin for the tool '{tool}' of the server '{server}'")]
        UnknownPin { server: String, tool: String } => NOT_FOUND,
        #[error("{reason}")]
        Conflict { reason: String } => CONFLICT,
    }
}

/// The filter of the pin list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PinQuery {
    /// Restricts the list to the pins of the server with this label.
    server: Option<String>,
    /// Restricts the list to the pins of tools that are listed for this user alone.
    user: Option<String>,
    /// Restricts the list to the pins that are not accepted: those with the status `changed`,
    /// `renamed` or `new`.
    #[param(value_type = Option<bool>)]
    changed: Option<String>,
}

/// The query that names the user of a pin.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PinOwnerQuery {
    /// The user for whom the server lists the tool, if the server lists tools per user.
    user: Option<String>,
}

impl PinOwnerQuery {
    /// Returns the owner of the pin, if the client may see the pin.
    fn find_owner<'a>(
        &'a self,
        server: &'a str,
        tool: &str,
        grant: &AccessGrant,
    ) -> Result<PinOwner<'a>, PinError> {
        let user = self.user.as_deref().filter(|user| !user.is_empty());
        may_see(grant, user)
            .then_some(PinOwner { server, user })
            .ok_or_else(|| unknown_pin_error(server, tool))
    }
}

/// Returns whether the client may see the tools that a server lists for `user`, which requires that
/// the client may act on behalf of the user.
fn may_see(grant: &AccessGrant, user: Option<&str>) -> bool {
    user.is_none_or(|user| grant.may_act_for(user))
}

/// List the pinned tool definitions of MCP servers.
///
/// Pins of a user's personal tools are visible only to clients that may act on behalf of that user.
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
    client_tags: EntityTags,
) -> Result<Response> {
    let changed_filter = parse_parameter("changed", query.changed.as_deref(), "true or false")?;
    let is_changed_only = changed_filter.unwrap_or(false);
    let store = require_store(&app)?;
    let labels = match query.server {
        Some(label) => vec![label],
        None => {
            let servers = app.upstreams().servers().iter();
            servers.map(|server| server.label.clone()).collect()
        }
    };
    let mut entries = Vec::new();
    for label in labels {
        let pins = match query.user.as_deref().filter(|user| !user.is_empty()) {
            None => store.server_pins(&label).await?,
            user => {
                let server = &label;
                store.pins(PinOwner { server, user }).await?
            }
        };
        let is_shown = |pin: &ToolPin| {
            (!is_changed_only || pin.pending.is_some()) && may_see(&grant, pin.user.as_deref())
        };
        let visible_pins: Vec<_> = pins.into_iter().filter(is_shown).collect();
        let bytes = visible_pins.iter().map(pins::pin_bytes).sum();
        let convert = move || visible_pins.iter().map(build_entry).collect::<Vec<_>>();
        entries.extend(compute::run(&label, bytes, convert).await);
    }
    client_tags.respond(&PinList {
        success: true,
        pins: entries,
    })
}

/// Show the accepted definition of a tool, and the changes since then.
#[utoipa::path(
    get,
    path = route::SHOW_PIN.path,
    params(
        ("server" = String, Path, description = "The server's label"),
        ("tool" = String, Path, description = "The tool's name on the server"),
        PinOwnerQuery,
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
    Parameters(owner_query): Parameters<PinOwnerQuery>,
) -> Result<Json<PinResponse>> {
    let Path((server, tool)) = path.map_err(|_| PinError::InvalidPath)?;
    let owner = owner_query.find_owner(&server, &tool, &grant)?;
    show_pin(&*require_store(&app)?, owner, &tool).await
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
        PinOwnerQuery,
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
    Parameters(owner_query): Parameters<PinOwnerQuery>,
    Body(body): Body,
) -> Result<Json<PinResponse>> {
    let Path((server, tool)) = path.map_err(|_| PinError::InvalidPath)?;
    let owner = owner_query.find_owner(&server, &tool, &grant)?;
    let AcceptPin { hash } = if body.trim_ascii().is_empty() {
        AcceptPin::default()
    } else {
        let json: Value = serde_json::from_slice(&body).map_err(BodyError::MalformedJson)?;
        serde_json::from_value::<Option<AcceptPin>>(json)
            .map_err(|_| RequestError::invalid_parameter("hash", "a string"))?
            .unwrap_or_default()
    };
    let store = require_store(&app)?;
    match pins::accept(&*store, owner, &tool, hash.as_deref()).await {
        Ok(()) => {}
        Err(error) if error.is_not_found() => {
            return Err(unknown_pin_error(&server, &tool).into());
        }
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

fn unknown_pin_error(server: &str, tool: &str) -> PinError {
    PinError::UnknownPin {
        server: truncate_input(server),
        tool: truncate_input(tool),
    }
}

async fn show_pin(store: &dyn Store, owner: PinOwner<'_>, tool: &str) -> Result<Json<PinResponse>> {
    let stored_pin = store.find_pin(owner, tool).await?;
    let pin = stored_pin.ok_or_else(|| unknown_pin_error(owner.server, tool))?;
    let bytes = pins::pin_bytes(&pin);
    let build_response = compute::run(owner.server, bytes, move || {
        let changes = match &pin.pending {
            Some(pending_definition) => {
                pins::find_differences(&pin.definition, &pending_definition.definition)
            }
            None => Vec::new(),
        };
        PinResponse {
            success: true,
            definition: serde_json::from_str(&pin.definition).unwrap_or_default(),
            changes,
            pin: build_entry(&pin),
        }
    });
    Ok(Json(build_response.await))
}

fn build_entry(pin: &ToolPin) -> PinEntry {
    let pending_definition = pin.pending.as_ref();
    let newest_definition = pending_definition.map_or(&pin.definition, |pending_definition| {
        &pending_definition.definition
    });
    PinEntry {
        server: pin.server.clone(),
        user: pin.user.clone(),
        tool: pin.tool.clone(),
        status: pins::status(pin).to_owned(),
        hash: pin.hash.clone(),
        accepted_at: format_timestamp(pin.accepted_at),
        pending_hash: pending_definition.map(|pending_definition| pending_definition.hash.clone()),
        pending_since: pending_definition
            .map(|pending_definition| format_timestamp(pending_definition.seen_at)),
        warnings: pins::find_warnings(&serde_json::from_str(newest_definition).unwrap_or_default()),
    }
}
