use axum::Json;
use axum::extract::State;
use pillion_wire::ServerAnswer;

use super::{ServerKey, answer_of, in_use, servers_of, to_the_end};
use crate::app::App;
use crate::routes::caller::Caller;
use crate::routes::error::RequestError;

/// Connects to an MCP server now.
#[utoipa::path(
    post,
    path = "/api/v1/servers/{id}/connect",
    tag = "servers",
    summary = "Connect an MCP server now",
    description = "And not only when somebody needs it, or again after it was disconnected: it is asked for its tools. The status is 200 also when the server fails: the `status` of the server says so.",
    params(
        ("id" = String, Path, description = "The server's id or name"),
        ("x-pillion-user" = Option<String>, Header, description = "The user whose own tools are asked for, where the server lists them for each user")
    ),
    responses(
        (status = 200, description = "The server", body = ServerAnswer),
        (status = 404, description = "Server not found"),
        (status = 409, description = "It is not in use"),
        (status = 503, description = "This sidecar keeps no servers"),
    )
)]
pub(in crate::routes) async fn connect(
    State(app): State<App>,
    ServerKey(key): ServerKey,
    Caller { context, .. }: Caller,
) -> Result<Json<ServerAnswer>, RequestError> {
    let servers = servers_of(&app)?;
    let server = in_use(&app, &servers, &key)?;
    let with = app.clone();
    let connect = async move {
        with.upstreams().connect(&server, &context).await;
        Ok(())
    };
    to_the_end(connect).await?;
    answer_of(&app, &servers, &key)
}

/// Disconnects from an MCP server.
#[utoipa::path(
    post,
    path = "/api/v1/servers/{id}/disconnect",
    tag = "servers",
    summary = "Disconnect an MCP server",
    description = "Its sessions end, and calls that wait for it fail. Its tools stay in the lists; calls of them fail as `unavailable` until it is connected again, begun anew with or changed, or the sidecar starts again.",
    params(("id" = String, Path, description = "The server's id or name")),
    responses(
        (status = 200, description = "The server", body = ServerAnswer),
        (status = 404, description = "Server not found"),
        (status = 409, description = "It is not in use"),
        (status = 503, description = "This sidecar keeps no servers"),
    )
)]
pub(in crate::routes) async fn disconnect(
    State(app): State<App>,
    ServerKey(key): ServerKey,
) -> Result<Json<ServerAnswer>, RequestError> {
    let servers = servers_of(&app)?;
    let server = in_use(&app, &servers, &key)?;
    let with = app.clone();
    let disconnect = async move {
        with.upstreams().disconnect_from(&server).await;
        Ok(())
    };
    to_the_end(disconnect).await?;
    answer_of(&app, &servers, &key)
}
