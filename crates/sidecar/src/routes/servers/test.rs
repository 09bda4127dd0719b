use axum::Json;
use axum::extract::State;
use pillion_wire::{ServerTrial, route};

use super::{PathParameter, ServerSettingsBody, require_servers};
use crate::app::App;
use pillion_management::error::Result;
use pillion_management::servers::ServerInput;

/// Test an MCP server before adding it.
///
/// Lists the server's tools. Stores nothing and starts no program. The name is optional. The status
/// is 200 even if the server fails: `reachable` has the outcome.
#[utoipa::path(
    post,
    path = route::TEST_NEW_SERVER.path,
    request_body(
        content = ServerInput,
        content_type = "application/json",
        example = json!({"url": "http://127.0.0.1:8000/mcp", "timeout": 1_000})
    ),
    responses(
        (status = 200, description = "The outcome of the test", body = ServerTrial),
        (status = 400, description = "A setting of the server is invalid"),
        (status = 403, description = "The server uses the stdio transport, which the REST API does not allow"),
        (status = 503, description = "The sidecar has no store"),
    )
)]
pub(in crate::routes) async fn test_unsaved(
    State(app): State<App>,
    ServerSettingsBody(keys): ServerSettingsBody,
) -> Result<Json<ServerTrial>> {
    Ok(Json(require_servers(&app)?.test_unsaved(keys).await?))
}

/// Test an MCP server.
///
/// Lists the server's tools over a separate session. Starts the program of a stdio server only if
/// the server is in use. The status is 200 even if the server fails: `reachable` has the outcome.
#[utoipa::path(
    post,
    path = route::TEST_SERVER.path,
    params(("id" = String, Path, description = "The server's ID or name")),
    responses(
        (status = 200, description = "The outcome of the test", body = ServerTrial),
        (status = 403, description = "The server uses the stdio transport and is not in use"),
        (status = 404, description = "Server not found"),
        (status = 503, description = "The sidecar has no store"),
    )
)]
pub(in crate::routes) async fn test(
    State(app): State<App>,
    PathParameter(key): PathParameter,
) -> Result<Json<ServerTrial>> {
    Ok(Json(require_servers(&app)?.test_existing(&key).await?))
}
