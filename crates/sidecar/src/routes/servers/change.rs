use axum::Json;
use axum::extract::State;
use pillion_wire::{ServerResponse, route};
use serde_json::{Map, Value};

use super::{Keys, ServerKey, answer_of, run_to_completion, servers_of};
use crate::app::App;
use crate::routes::error::RequestError;
use crate::servers::{How, ServerInput};

/// Replaces the definition of an MCP server.
#[utoipa::path(
    put,
    path = route::REPLACE_SERVER.path,
    tag = "servers",
    summary = "Replace an MCP server",
    description = "Settings that the request body omits get their defaults; omitted credentials are removed.",
    params(("id" = String, Path, description = "The server's ID or name")),
    request_body(content = ServerInput, content_type = "application/json"),
    responses(
        (status = 200, description = "The server", body = ServerResponse),
        (status = 400, description = "A setting of the server is invalid"),
        (status = 403, description = "The server uses the stdio transport or names a local file, or the vault has no key to encrypt a credential"),
        (status = 404, description = "Server not found"),
        (status = 409, description = "Another server has this name, or the server is defined in the configuration file"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(in crate::routes) async fn replace(
    State(app): State<App>,
    ServerKey(key): ServerKey,
    Keys(keys): Keys,
) -> Result<Json<ServerResponse>, RequestError> {
    change(&app, key, keys, How::Replace).await
}

/// Changes an MCP server.
#[utoipa::path(
    patch,
    path = route::CHANGE_SERVER.path,
    tag = "servers",
    summary = "Change an MCP server",
    description = "The request body is a JSON merge patch (RFC 7396): omitted settings stay, and null removes a setting. If the scheme, host or port of `url` changes, the request must include the credentials again.",
    params(("id" = String, Path, description = "The server's ID or name")),
    request_body(content = ServerInput, content_type = "application/merge-patch+json"),
    responses(
        (status = 200, description = "The server", body = ServerResponse),
        (status = 400, description = "A setting of the server is invalid"),
        (status = 403, description = "The server uses the stdio transport or names a local file, or the vault has no key to encrypt a credential"),
        (status = 404, description = "Server not found"),
        (status = 409, description = "Another server has this name, or the server is defined in the configuration file"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(in crate::routes) async fn patch(
    State(app): State<App>,
    ServerKey(key): ServerKey,
    Keys(keys): Keys,
) -> Result<Json<ServerResponse>, RequestError> {
    change(&app, key, keys, How::Patch).await
}

/// Enables an MCP server.
#[utoipa::path(
    post,
    path = route::ENABLE_SERVER.path,
    tag = "servers",
    summary = "Enable an MCP server",
    params(("id" = String, Path, description = "The server's ID or name")),
    responses(
        (status = 200, description = "The server", body = ServerResponse),
        (status = 403, description = "The server uses the stdio transport, which is not allowed here"),
        (status = 404, description = "Server not found"),
        (status = 409, description = "The server is defined in the configuration file"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(in crate::routes) async fn enable(
    State(app): State<App>,
    ServerKey(key): ServerKey,
) -> Result<Json<ServerResponse>, RequestError> {
    change(&app, key, enabled(true), How::Patch).await
}

/// Disables an MCP server.
#[utoipa::path(
    post,
    path = route::DISABLE_SERVER.path,
    tag = "servers",
    summary = "Disable an MCP server",
    description = "Removes the server's tools from the lists at once. Running calls finish normally.",
    params(("id" = String, Path, description = "The server's ID or name")),
    responses(
        (status = 200, description = "The server", body = ServerResponse),
        (status = 404, description = "Server not found"),
        (status = 409, description = "The server is defined in the configuration file"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(in crate::routes) async fn disable(
    State(app): State<App>,
    ServerKey(key): ServerKey,
) -> Result<Json<ServerResponse>, RequestError> {
    change(&app, key, enabled(false), How::Patch).await
}

/// Starts a new session with an MCP server.
#[utoipa::path(
    post,
    path = route::RECONNECT_SERVER.path,
    tag = "servers",
    summary = "Reconnect to an MCP server",
    description = "The server's session closes when its running calls finish. The next call to the server opens a new session with the authorization that is stored at that time.",
    params(("id" = String, Path, description = "The server's ID or name")),
    responses(
        (status = 200, description = "The server", body = ServerResponse),
        (status = 404, description = "Server not found"),
        (status = 503, description = "The sidecar has no store"),
    )
)]
pub(in crate::routes) async fn reconnect(
    State(app): State<App>,
    ServerKey(key): ServerKey,
) -> Result<Json<ServerResponse>, RequestError> {
    let servers = servers_of(&app)?;
    let (changed, name) = (std::sync::Arc::clone(&servers), key.clone());
    run_to_completion(async move { changed.reconnect(&name).await }).await?;
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
) -> Result<Json<ServerResponse>, RequestError> {
    let servers = servers_of(app)?;
    let changed = std::sync::Arc::clone(&servers);
    let id = run_to_completion(async move { changed.change(&key, keys, how).await }).await?;
    answer_of(app, &servers, &id)
}
