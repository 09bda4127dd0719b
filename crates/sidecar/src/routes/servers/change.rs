use axum::Json;
use axum::extract::State;
use pillion_wire::{ServerAnswer, ServerInput};
use serde_json::{Map, Value};

use super::{Keys, ServerKey, answer_of, servers_of, to_the_end};
use crate::app::App;
use crate::routes::error::RequestError;
use crate::servers::How;

/// Replaces the definition of an MCP server.
#[utoipa::path(
    put,
    path = "/api/v1/servers/{id}",
    tag = "servers",
    summary = "Say anew what an MCP server is",
    description = "What the body does not say is as it is for a new server, credentials included.",
    params(("id" = String, Path, description = "The server's id or name")),
    request_body(content = ServerInput, content_type = "application/json"),
    responses(
        (status = 200, description = "The server", body = ServerAnswer),
        (status = 400, description = "A key is not what it can be"),
        (status = 403, description = "A program, or a credential where there is no key to encrypt it with"),
        (status = 404, description = "Server not found"),
        (status = 409, description = "There is a server of that name, or this one is of the configuration file"),
        (status = 503, description = "The store cannot be written to"),
    )
)]
pub(in crate::routes) async fn replace(
    State(app): State<App>,
    ServerKey(key): ServerKey,
    Keys(keys): Keys,
) -> Result<Json<ServerAnswer>, RequestError> {
    change(&app, key, keys, How::Replace).await
}

/// Changes an MCP server.
#[utoipa::path(
    patch,
    path = "/api/v1/servers/{id}",
    tag = "servers",
    summary = "Change an MCP server",
    description = "A merge patch (RFC 7396): what the body does not say stays, and null takes away. With another place in `url`, credentials have to be given again.",
    params(("id" = String, Path, description = "The server's id or name")),
    request_body(content = ServerInput, content_type = "application/merge-patch+json"),
    responses(
        (status = 200, description = "The server", body = ServerAnswer),
        (status = 400, description = "A key is not what it can be"),
        (status = 403, description = "A program, or a credential where there is no key to encrypt it with"),
        (status = 404, description = "Server not found"),
        (status = 409, description = "There is a server of that name, or this one is of the configuration file"),
        (status = 503, description = "The store cannot be written to"),
    )
)]
pub(in crate::routes) async fn patch(
    State(app): State<App>,
    ServerKey(key): ServerKey,
    Keys(keys): Keys,
) -> Result<Json<ServerAnswer>, RequestError> {
    change(&app, key, keys, How::Patch).await
}

/// Enables an MCP server.
#[utoipa::path(
    post,
    path = "/api/v1/servers/{id}/enable",
    tag = "servers",
    summary = "Use an MCP server again",
    params(("id" = String, Path, description = "The server's id or name")),
    responses(
        (status = 200, description = "The server", body = ServerAnswer),
        (status = 403, description = "It is a program"),
        (status = 404, description = "Server not found"),
        (status = 409, description = "It is a server of the configuration file"),
        (status = 503, description = "The store cannot be written to"),
    )
)]
pub(in crate::routes) async fn enable(
    State(app): State<App>,
    ServerKey(key): ServerKey,
) -> Result<Json<ServerAnswer>, RequestError> {
    change(&app, key, enabled(true), How::Patch).await
}

/// Disables an MCP server.
#[utoipa::path(
    post,
    path = "/api/v1/servers/{id}/disable",
    tag = "servers",
    summary = "Stop using an MCP server",
    description = "Its tools are gone from now on; calls that run end as they began.",
    params(("id" = String, Path, description = "The server's id or name")),
    responses(
        (status = 200, description = "The server", body = ServerAnswer),
        (status = 404, description = "Server not found"),
        (status = 409, description = "It is a server of the configuration file"),
        (status = 503, description = "The store cannot be written to"),
    )
)]
pub(in crate::routes) async fn disable(
    State(app): State<App>,
    ServerKey(key): ServerKey,
) -> Result<Json<ServerAnswer>, RequestError> {
    change(&app, key, enabled(false), How::Patch).await
}

/// Starts a new session with an MCP server.
#[utoipa::path(
    post,
    path = "/api/v1/servers/{id}/reconnect",
    tag = "servers",
    summary = "Begin anew with an MCP server",
    description = "Its session ends when the calls have that run; the next that needs the server connects, with the authorization that there is then.",
    params(("id" = String, Path, description = "The server's id or name")),
    responses(
        (status = 200, description = "The server", body = ServerAnswer),
        (status = 404, description = "Server not found"),
        (status = 503, description = "This sidecar keeps no servers"),
    )
)]
pub(in crate::routes) async fn reconnect(
    State(app): State<App>,
    ServerKey(key): ServerKey,
) -> Result<Json<ServerAnswer>, RequestError> {
    let servers = servers_of(&app)?;
    let (changed, name) = (std::sync::Arc::clone(&servers), key.clone());
    to_the_end(async move { changed.reconnect(&name).await }).await?;
    answer_of(&app, &servers, &key)
}

fn enabled(enabled: bool) -> Map<String, Value> {
    Map::from_iter([("enabled".to_owned(), Value::Bool(enabled))])
}

async fn change(
    app: &App,
    key: String,
    keys: Map<String, Value>,
    how: How,
) -> Result<Json<ServerAnswer>, RequestError> {
    let servers = servers_of(app)?;
    let changed = std::sync::Arc::clone(&servers);
    let id = to_the_end(async move { changed.change(&key, keys, how).await }).await?;
    answer_of(app, &servers, &id)
}
