use axum::Json;
use axum::extract::State;
use pillion_wire::{ServerRemoved, route};

use super::{ServerKey, run_to_completion, servers_of};
use crate::app::App;
use crate::routes::error::RequestError;

/// Removes an MCP server.
#[utoipa::path(
    delete,
    path = route::REMOVE_SERVER.path,
    tag = "servers",
    summary = "Remove an MCP server",
    description = "Also removes the server's credentials, recorded calls and tool pins. The server's sessions close when their running calls finish.",
    params(("id" = String, Path, description = "The server's ID or name")),
    responses(
        (status = 200, description = "The server is removed", body = ServerRemoved),
        (status = 404, description = "Server not found"),
        (status = 409, description = "The server is defined in the configuration file"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(in crate::routes) async fn remove(
    State(app): State<App>,
    ServerKey(key): ServerKey,
) -> Result<Json<ServerRemoved>, RequestError> {
    let servers = servers_of(&app)?;
    let removed = run_to_completion(async move { servers.remove(&key).await }).await?;
    Ok(Json(ServerRemoved {
        success: true,
        removed,
    }))
}
