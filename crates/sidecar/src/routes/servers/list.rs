use axum::extract::State;
use axum::response::Response;
use pillion_wire::ServerList;

use super::servers_of;
use crate::app::App;
use crate::routes::error::RequestError;
use crate::routes::tagged::EntityTags;

/// Lists the MCP servers. Sends no request to them.
#[utoipa::path(
    get,
    path = "/api/v1/servers/",
    tag = "servers",
    summary = "List the MCP servers",
    description = "Those of the configuration file and those that were added, with how it stands with each. Asks none of them.",
    params(("if-none-match" = Option<String>, Header, description = "The `ETag` of the list that the client has")),
    responses(
        (status = 200, description = "The servers", body = ServerList),
        (status = 304, description = "The list is the same"),
        (status = 503, description = "This sidecar keeps no servers"),
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
