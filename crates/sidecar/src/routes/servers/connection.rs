use axum::Json;
use axum::extract::State;
use pillion_wire::{ServerResponse, route};

use super::{ServerKey, answer_of, in_use, run_to_completion, servers_of};
use crate::app::App;
use crate::routes::caller::Caller;
use crate::routes::error::RequestError;

/// Connects to an MCP server now.
#[utoipa::path(
    post,
    path = route::CONNECT_SERVER.path,
    tag = "servers",
    summary = "Connect to an MCP server",
    description = "Connects at once, instead of on the next call, and lists the server's tools; also connects a disconnected server again. The status is 200 even if the server fails: the server's `status` has the outcome.",
    params(
        ("id" = String, Path, description = "The server's ID or name"),
        ("x-pillion-user" = Option<String>, Header, description = "The user whose tools are requested, for servers that list tools per user")
    ),
    responses(
        (status = 200, description = "The server", body = ServerResponse),
        (status = 404, description = "Server not found"),
        (status = 409, description = "The server is disabled, or not in use for another reason"),
        (status = 503, description = "The sidecar has no store"),
    )
)]
pub(in crate::routes) async fn connect(
    State(app): State<App>,
    ServerKey(key): ServerKey,
    Caller { context, .. }: Caller,
) -> Result<Json<ServerResponse>, RequestError> {
    let servers = servers_of(&app)?;
    let server = in_use(&app, &servers, &key)?;
    let with = app.clone();
    let connect = async move {
        with.upstreams().connect(&server, &context).await;
        Ok(())
    };
    run_to_completion(connect).await?;
    answer_of(&app, &servers, &key)
}

/// Disconnects from an MCP server.
#[utoipa::path(
    post,
    path = route::DISCONNECT_SERVER.path,
    tag = "servers",
    summary = "Disconnect from an MCP server",
    description = "Closes the server's sessions and fails the calls that wait for the server. The server's tools stay listed, but calls to them fail with `unavailable` until the server is connected, reconnected or changed, or the sidecar restarts.",
    params(("id" = String, Path, description = "The server's ID or name")),
    responses(
        (status = 200, description = "The server", body = ServerResponse),
        (status = 404, description = "Server not found"),
        (status = 409, description = "The server is disabled, or not in use for another reason"),
        (status = 503, description = "The sidecar has no store"),
    )
)]
pub(in crate::routes) async fn disconnect(
    State(app): State<App>,
    ServerKey(key): ServerKey,
) -> Result<Json<ServerResponse>, RequestError> {
    let servers = servers_of(&app)?;
    let server = in_use(&app, &servers, &key)?;
    let with = app.clone();
    let disconnect = async move {
        with.upstreams().disconnect_from(&server).await;
        Ok(())
    };
    run_to_completion(disconnect).await?;
    answer_of(&app, &servers, &key)
}
