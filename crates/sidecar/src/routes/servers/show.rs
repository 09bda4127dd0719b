use axum::Json;
use axum::extract::State;
use pillion_wire::{ServerResponse, route};

use super::{ServerKey, answer_of, servers_of};
use crate::app::App;
use crate::routes::error::RequestError;

/// Shows one MCP server.
#[utoipa::path(
    get,
    path = route::SHOW_SERVER.path,
    tag = "servers",
    summary = "Show an MCP server",
    params(("id" = String, Path, description = "The server's ID or name")),
    responses(
        (status = 200, description = "The server", body = ServerResponse),
        (status = 404, description = "Server not found"),
        (status = 503, description = "The sidecar has no store"),
    )
)]
pub(in crate::routes) async fn show(
    State(app): State<App>,
    ServerKey(key): ServerKey,
) -> Result<Json<ServerResponse>, RequestError> {
    answer_of(&app, &*servers_of(&app)?, &key)
}
