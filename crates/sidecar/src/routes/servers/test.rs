use axum::Json;
use axum::extract::State;
use pillion_wire::{ServerInput, ServerTrial};

use super::{Keys, ServerKey, servers_of};
use crate::app::App;
use crate::routes::error::RequestError;

/// Lists the tools of a server that is not saved, as a test.
#[utoipa::path(
    post,
    path = "/api/v1/servers/test",
    tag = "servers",
    summary = "Ask a server for its tools before it is added",
    description = "Nothing is kept, and no program is started. The name may be missing. The status is 200 also when the server fails: `reachable` says so.",
    request_body(
        content = ServerInput,
        content_type = "application/json",
        example = json!({"url": "http://127.0.0.1:8000/mcp", "timeout": 1_000})
    ),
    responses(
        (status = 200, description = "How it went", body = ServerTrial),
        (status = 400, description = "A key is not what it can be"),
        (status = 403, description = "It is a program"),
        (status = 503, description = "This sidecar keeps no servers"),
    )
)]
pub(in crate::routes) async fn test_unsaved(
    State(app): State<App>,
    Keys(keys): Keys,
) -> Result<Json<ServerTrial>, RequestError> {
    Ok(Json(servers_of(&app)?.try_unsaved(keys).await?))
}

/// Lists the tools of a saved server over a new session, as a test.
#[utoipa::path(
    post,
    path = "/api/v1/servers/{id}/test",
    tag = "servers",
    summary = "Ask a server for its tools over a session of its own",
    description = "A program is started only where it is in use anyway. The status is 200 also when the server fails: `reachable` says so.",
    params(("id" = String, Path, description = "The server's id or name")),
    responses(
        (status = 200, description = "How it went", body = ServerTrial),
        (status = 403, description = "It is a program that is not in use"),
        (status = 404, description = "Server not found"),
        (status = 503, description = "This sidecar keeps no servers"),
    )
)]
pub(in crate::routes) async fn test(
    State(app): State<App>,
    ServerKey(key): ServerKey,
) -> Result<Json<ServerTrial>, RequestError> {
    Ok(Json(servers_of(&app)?.try_known(&key).await?))
}
