use axum::Json;
use axum::extract::State;
use pillion_wire::{Health, route};

use crate::app::App;

/// Reports that the sidecar is running. Sends no request to MCP servers.
#[utoipa::path(
    get,
    path = route::HEALTH.path,
    tag = "operations",
    summary = "Check whether the sidecar is up",
    description = "This request contacts no MCP server.",
    responses((status = 200, description = "The sidecar is up", body = Health))
)]
pub(super) async fn health(State(app): State<App>) -> Json<Health> {
    Json(Health {
        status: "ok".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        tools: app.registry().len(),
    })
}
