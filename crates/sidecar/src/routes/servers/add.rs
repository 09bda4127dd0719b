use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use pillion_wire::{ServerInput, ServerResponse, route};

use super::{Keys, answer_of, run_to_completion, servers_of};
use crate::app::App;
use crate::routes::error::RequestError;

/// Adds an MCP server.
#[utoipa::path(
    post,
    path = "/api/v1/servers/",
    tag = "servers",
    summary = "Add an MCP server",
    description = "New requests can use the server at once; the sidecar connects when a request needs the server's tools. Servers with the stdio transport are rejected: only the operator can add them.",
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
    Keys(keys): Keys,
) -> Result<Response, RequestError> {
    let servers = servers_of(&app)?;
    let changed = std::sync::Arc::clone(&servers);
    let id = run_to_completion(async move { changed.add(keys).await }).await?;
    let location = [(LOCATION, route::SHOW_SERVER.path_with([&id]))];
    let answer = answer_of(&app, &servers, &id)?;
    Ok((StatusCode::CREATED, location, answer).into_response())
}
