use axum::extract::State;
use axum::response::Response;
use pillion_wire::{ServerList, route};

use super::servers_of;
use crate::app::App;
use crate::routes::error::RequestError;
use crate::routes::tagged::EntityTags;

/// Lists the MCP servers. Sends no request to them.
#[utoipa::path(
    get,
    path = route::LIST_SERVERS.path,
    tag = "servers",
    summary = "List the MCP servers",
    description = "Lists the servers of the configuration file and the added servers, each with its last known status. This request contacts no MCP server.",
    params(("if-none-match" = Option<String>, Header, description = "The `ETag` of the client's copy of the list")),
    responses(
        (status = 200, description = "The servers", body = ServerList),
        (status = 304, description = "The list has not changed"),
        (status = 503, description = "The sidecar has no store"),
    )
)]
pub(in crate::routes) async fn list(
    State(app): State<App>,
    known: EntityTags,
) -> Result<Response, RequestError> {
    let servers = servers_of(&app)?.entries(&app);
    let list = ServerList {
        success: true,
        total: servers.len(),
        servers,
    };
    known.or(&list)
}
