//! Everything under `/api/v1/pins`: what the tools of MCP servers are accepted to be.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use pillion_core::store::{Store, ToolPin};
use pillion_wire::{AcceptPin, PinAnswer, PinEntry, PinList};
use serde::Deserialize;
use serde_json::Value;

use super::body::Body;
use super::error::RequestError;
use super::parameters::{Parameters, parsed};
use super::store_of;
use crate::app::App;
use crate::moment::text_of;
use crate::pins;

/// Which pins.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Only those of this server, by its label.
    server: Option<String>,
    /// Only those of tools that have changed.
    #[param(value_type = Option<bool>)]
    changed: Option<String>,
}

/// Lists what the tools of the configured servers are accepted to be.
#[utoipa::path(
    get,
    path = "/api/v1/pins/",
    tag = "pins",
    summary = "List what the tools of MCP servers are accepted to be",
    params(Wanted),
    responses(
        (status = 200, description = "The pins", body = PinList),
        (status = 400, description = "A parameter is not what it can be"),
        (status = 503, description = "The store cannot be read"),
    )
)]
pub(super) async fn list(
    State(app): State<App>,
    Parameters(wanted): Parameters<Wanted>,
) -> Result<Json<PinList>, RequestError> {
    let changed = parsed("changed", wanted.changed.as_deref(), "true or false")?;
    let only_changed = changed.unwrap_or(false);
    let store = store_of(&app)?;
    let labels = match wanted.server {
        Some(label) => vec![label],
        None => {
            let servers = app.upstreams().servers().iter();
            servers.map(|server| server.label.clone()).collect()
        }
    };
    let mut listed = Vec::new();
    for label in labels {
        let pins = store.pins(&label).await?.into_iter();
        let pins = pins.filter(|pin| !only_changed || pin.pending.is_some());
        listed.extend(pins.map(|pin| entry(&pin)));
    }
    Ok(Json(PinList {
        success: true,
        pins: listed,
    }))
}

/// Shows one, with what is otherwise in what its server offers now.
#[utoipa::path(
    get,
    path = "/api/v1/pins/{server}/{tool}",
    tag = "pins",
    summary = "Show what one tool is accepted to be, and what is otherwise",
    params(
        ("server" = String, Path, description = "The server's label"),
        ("tool" = String, Path, description = "The tool's name there"),
    ),
    responses(
        (status = 200, description = "The pin", body = PinAnswer),
        (status = 404, description = "There is no such pin"),
        (status = 503, description = "The store cannot be read"),
    )
)]
pub(super) async fn show(
    State(app): State<App>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<PinAnswer>, RequestError> {
    let Path((server, tool)) = path.map_err(|_| RequestError::UnknownPin)?;
    answer(&*store_of(&app)?, &server, &tool).await
}

/// Accepts what the server offers now: the tool can be called again.
#[utoipa::path(
    post,
    path = "/api/v1/pins/{server}/{tool}/accept",
    tag = "pins",
    summary = "Accept what a server offers now",
    description = "Over TCP it needs a token of scope `admin`.",
    params(
        ("server" = String, Path, description = "The server's label"),
        ("tool" = String, Path, description = "The tool's name there"),
    ),
    request_body(content = Option<AcceptPin>, content_type = "application/json"),
    responses(
        (status = 200, description = "The pin as it is now", body = PinAnswer),
        (status = 400, description = "The body is none"),
        (status = 404, description = "There is no such pin"),
        (status = 409, description = "Nothing has changed, or something else than was looked at"),
        (status = 503, description = "The store cannot be written"),
    )
)]
pub(super) async fn accept(
    State(app): State<App>,
    path: Result<Path<(String, String)>, PathRejection>,
    Body(body): Body,
) -> Result<Json<PinAnswer>, RequestError> {
    let Path((server, tool)) = path.map_err(|_| RequestError::UnknownPin)?;
    let AcceptPin { hash } = if body.trim_ascii().is_empty() {
        AcceptPin::default()
    } else {
        let body: Value = serde_json::from_slice(&body).map_err(RequestError::MalformedJson)?;
        let request: Result<Option<AcceptPin>, _> = serde_json::from_value(body);
        let request = request.map_err(|_| RequestError::parameter("hash", "a text"))?;
        request.unwrap_or_default()
    };
    let store = store_of(&app)?;
    match pins::accept(&*store, &server, &tool, hash.as_deref()).await {
        Ok(()) => {}
        Err(error) if error.is_not_found() => return Err(RequestError::UnknownPin),
        Err(error) if error.is_conflict() => {
            let why = error.to_string();
            return Err(RequestError::NotOpen { why });
        }
        Err(error) => return Err(error.into()),
    }
    tracing::info!(
        server.label = server,
        tool.name = tool,
        "A changed tool is accepted"
    );
    app.upstreams().expire(&server);
    answer(&*store, &server, &tool).await
}

async fn answer(
    store: &dyn Store,
    server: &str,
    tool: &str,
) -> Result<Json<PinAnswer>, RequestError> {
    let pin = pins::pin(store, server, tool).await?;
    let pin = pin.ok_or(RequestError::UnknownPin)?;
    let changes = match &pin.pending {
        Some(pending) => pins::between(&pin.definition, &pending.definition),
        None => Vec::new(),
    };
    Ok(Json(PinAnswer {
        success: true,
        definition: serde_json::from_str(&pin.definition).unwrap_or_default(),
        changes,
        pin: entry(&pin),
    }))
}

fn entry(pin: &ToolPin) -> PinEntry {
    let pending = pin.pending.as_ref();
    let newest = pending.map_or(&pin.definition, |pending| &pending.definition);
    let status = if pending.is_some() {
        "changed"
    } else {
        "accepted"
    };
    PinEntry {
        server: pin.server.clone(),
        tool: pin.tool.clone(),
        status: status.to_owned(),
        hash: pin.hash.clone(),
        accepted_at: text_of(pin.accepted_at),
        pending_hash: pending.map(|pending| pending.hash.clone()),
        pending_since: pending.map(|pending| text_of(pending.seen_at)),
        warnings: pins::warnings(&serde_json::from_str(newest).unwrap_or_default()),
    }
}
