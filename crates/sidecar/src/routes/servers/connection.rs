use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use pillion_wire::{ServerResponse, route};

use super::{PathParameter, change_server};
use crate::app::App;
use crate::routes::extract::Caller;
use pillion_management::error::Result;
use pillion_management::servers::Servers;

/// Connect to an MCP server.
///
/// Connects at once, instead of on the next call, and lists the server's tools; also connects a
/// disconnected server again. The status is 200 even if the server fails: the server's `status` has
/// the outcome.
#[utoipa::path(
    post,
    path = route::CONNECT_SERVER.path,
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
    PathParameter(key): PathParameter,
    Caller { context, .. }: Caller,
) -> Result<Json<ServerResponse>> {
    let request_app = app.clone();
    let connect = |servers: Arc<Servers>| async move {
        let server = servers.find_in_use(&key, &request_app)?;
        request_app.upstreams().connect(&server, &context).await;
        Ok(key)
    };
    change_server(&app, connect).await
}

/// Disconnect from an MCP server.
///
/// Closes the server's sessions and fails the calls that wait for the server. The server's tools
/// stay listed, but calls to them fail with `unavailable` until the server is connected,
/// reconnected or changed, or the sidecar restarts.
#[utoipa::path(
    post,
    path = route::DISCONNECT_SERVER.path,
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
    PathParameter(key): PathParameter,
) -> Result<Json<ServerResponse>> {
    let request_app = app.clone();
    let disconnect = |servers: Arc<Servers>| async move {
        let server = servers.find_in_use(&key, &request_app)?;
        request_app.upstreams().disconnect_server(&server).await;
        Ok(key)
    };
    change_server(&app, disconnect).await
}

/// Reconnect to an MCP server.
///
/// The server's session closes when its running calls finish. The next call to the server opens a
/// new session with the authorization that is stored at that time.
#[utoipa::path(
    post,
    path = route::RECONNECT_SERVER.path,
    params(("id" = String, Path, description = "The server's ID or name")),
    responses(
        (status = 200, description = "The server", body = ServerResponse),
        (status = 404, description = "Server not found"),
        (status = 503, description = "The sidecar has no store"),
    )
)]
pub(in crate::routes) async fn reconnect(
    State(app): State<App>,
    PathParameter(key): PathParameter,
) -> Result<Json<ServerResponse>> {
    let reconnect = |servers: Arc<Servers>| async move {
        servers.reconnect(&key).await?;
        Ok(key)
    };
    change_server(&app, reconnect).await
}
