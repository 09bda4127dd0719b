use axum::Json;
use axum::extract::State;
use pillion_wire::ServerRemoved;

use super::{ServerKey, servers_of, to_the_end};
use crate::app::App;
use crate::routes::error::RequestError;

/// Removes an MCP server.
#[utoipa::path(
    delete,
    path = "/api/v1/servers/{id}",
    tag = "servers",
    summary = "Remove an MCP server",
    description = "With its credentials, its recorded calls and the pins of its tools. Its sessions end when the calls have that run.",
    params(("id" = String, Path, description = "The server's id or name")),
    responses(
        (status = 200, description = "It is gone", body = ServerRemoved),
        (status = 404, description = "Server not found"),
        (status = 409, description = "It is a server of the configuration file"),
        (status = 503, description = "The store cannot be written to"),
    )
)]
pub(in crate::routes) async fn remove(
    State(app): State<App>,
    ServerKey(key): ServerKey,
) -> Result<Json<ServerRemoved>, RequestError> {
    let servers = servers_of(&app)?;
    let removed = to_the_end(async move { servers.remove(&key).await }).await?;
    Ok(Json(ServerRemoved {
        success: true,
        removed,
    }))
}
