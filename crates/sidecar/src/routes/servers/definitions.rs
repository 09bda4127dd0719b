//! The routes that list, add, show, change and remove MCP servers.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use pillion_wire::{ServerList, ServerRemoved, ServerResponse, route};
use serde_json::{Map, Value};

use super::{PathParameter, ServerSettingsBody, change_server, require_servers, show_server};
use crate::app::App;
use crate::routes::etag::EntityTags;
use pillion_management::error::Result;
use pillion_management::servers::run_to_completion;
use pillion_management::servers::{ServerInput, Servers, UpdateMode};

/// List the MCP servers.
///
/// Lists the servers of the configuration file and the added servers, each with its last known
/// status. This request contacts no MCP server.
#[utoipa::path(
    get,
    path = route::LIST_SERVERS.path,
    params(("if-none-match" = Option<String>, Header, description = "The `ETag` of the client's copy of the list")),
    responses(
        (status = 200, description = "The servers", body = ServerList),
        (status = 304, description = "The list has not changed"),
        (status = 503, description = "The sidecar has no store"),
    )
)]
pub(in crate::routes) async fn list(
    State(app): State<App>,
    client_tags: EntityTags,
) -> Result<Response> {
    let servers = require_servers(&app)?.entries(&app);
    let list = ServerList {
        success: true,
        total: servers.len(),
        servers,
    };
    client_tags.respond(&list)
}

/// Add an MCP server.
///
/// New requests can use the server at once; the sidecar connects when a request needs the server's
/// tools. Servers with the stdio transport are rejected: only the operator can add them.
#[utoipa::path(
    post,
    path = route::ADD_SERVER.path,
    request_body(
        content = ServerInput,
        content_type = "application/json",
        example = json!({"name": "weather", "url": "https://mcp.example.com/mcp", "timeout": 10_000})
    ),
    responses(
        (status = 201, description = "The server", body = ServerResponse),
        (status = 400, description = "A setting of the server is invalid"),
        (status = 403, description = "The server uses the stdio transport or names a local file, or the vault has no key to encrypt a credential"),
        (status = 409, description = "Another server has this name"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(in crate::routes) async fn add(
    State(app): State<App>,
    ServerSettingsBody(keys): ServerSettingsBody,
) -> Result<Response> {
    let response = change_server(&app, |servers| async move { servers.add(keys).await }).await?;
    let location = [(
        LOCATION,
        route::SHOW_SERVER.path_with([&response.server.id]),
    )];
    Ok((StatusCode::CREATED, location, response).into_response())
}

/// Show an MCP server.
#[utoipa::path(
    get,
    path = route::SHOW_SERVER.path,
    params(("id" = String, Path, description = "The server's ID or name")),
    responses(
        (status = 200, description = "The server", body = ServerResponse),
        (status = 404, description = "Server not found"),
        (status = 503, description = "The sidecar has no store"),
    )
)]
pub(in crate::routes) async fn show(
    State(app): State<App>,
    PathParameter(key): PathParameter,
) -> Result<Json<ServerResponse>> {
    show_server(&app, &*require_servers(&app)?, &key)
}

/// Replace an MCP server.
///
/// Settings that the request body omits get their defaults; omitted credentials are removed.
#[utoipa::path(
    put,
    path = route::REPLACE_SERVER.path,
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
    PathParameter(key): PathParameter,
    ServerSettingsBody(keys): ServerSettingsBody,
) -> Result<Json<ServerResponse>> {
    change(&app, key, keys, UpdateMode::Replace).await
}

/// Change an MCP server.
///
/// The request body is a JSON merge patch (RFC 7396): omitted settings stay, and null removes a
/// setting. If the scheme, host or port of `url` changes, the request must include the credentials
/// again.
#[utoipa::path(
    patch,
    path = route::CHANGE_SERVER.path,
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
    PathParameter(key): PathParameter,
    ServerSettingsBody(keys): ServerSettingsBody,
) -> Result<Json<ServerResponse>> {
    change(&app, key, keys, UpdateMode::Patch).await
}

/// Enable an MCP server.
#[utoipa::path(
    post,
    path = route::ENABLE_SERVER.path,
    params(("id" = String, Path, description = "The server's ID or name")),
    responses(
        (status = 200, description = "The server", body = ServerResponse),
        (status = 403, description = "The server uses the stdio transport, which the REST API does not allow"),
        (status = 404, description = "Server not found"),
        (status = 409, description = "The server is defined in the configuration file"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(in crate::routes) async fn enable(
    State(app): State<App>,
    PathParameter(key): PathParameter,
) -> Result<Json<ServerResponse>> {
    set_enabled(&app, key, true).await
}

/// Disable an MCP server.
///
/// Removes the server's tools from the lists at once. Running calls finish normally.
#[utoipa::path(
    post,
    path = route::DISABLE_SERVER.path,
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
    PathParameter(key): PathParameter,
) -> Result<Json<ServerResponse>> {
    set_enabled(&app, key, false).await
}

/// Remove an MCP server.
///
/// Also removes the server's credentials, recorded calls and tool pins. The server's sessions close
/// when their running calls finish.
#[utoipa::path(
    delete,
    path = route::REMOVE_SERVER.path,
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
    PathParameter(key): PathParameter,
) -> Result<Json<ServerRemoved>> {
    let servers = require_servers(&app)?;
    let removed_id = run_to_completion(async move { servers.remove(&key).await }).await?;
    Ok(Json(ServerRemoved {
        success: true,
        removed: removed_id,
    }))
}

async fn set_enabled(app: &App, key: String, is_enabled: bool) -> Result<Json<ServerResponse>> {
    let change = |servers: Arc<Servers>| async move { servers.set_enabled(&key, is_enabled).await };
    change_server(app, change).await
}

async fn change(
    app: &App,
    key: String,
    keys: Map<String, Value>,
    mode: UpdateMode,
) -> Result<Json<ServerResponse>> {
    let change = |servers: Arc<Servers>| async move { servers.change(&key, keys, mode).await };
    change_server(app, change).await
}
