use axum::Json;
use axum::extract::State;
use pillion_wire::{Health, route};

use crate::app::App;

/// Check whether the sidecar is up.
///
/// This request contacts no MCP server.
#[utoipa::path(
    get,
    path = route::HEALTH.path,
    responses((status = 200, description = "The sidecar is up", body = Health))
)]
pub(super) async fn health(State(app): State<App>) -> Json<Health> {
    Json(Health {
        status: "ok".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        tools: app.registry().len(),
    })
}
