use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use pillion_wire::ServerList;
use sha2::{Digest, Sha256};

use super::servers_of;
use crate::app::App;
use crate::routes::error::RequestError;
use crate::servers::ServerError;

/// Lists the MCP servers. Asks none of them.
#[utoipa::path(
    get,
    path = "/api/v1/servers/",
    tag = "servers",
    summary = "List the MCP servers",
    description = "Those of the configuration file and those that were added, with how it stands with each. Asks none of them. The answer has an `ETag`: with `If-None-Match` a list that is the same is answered with 304.",
    params(("if-none-match" = Option<String>, Header, description = "The `ETag` of the list that the client has")),
    responses(
        (status = 200, description = "The servers", body = ServerList),
        (status = 304, description = "The list is the same"),
        (status = 503, description = "This sidecar keeps no servers"),
    )
)]
pub(in crate::routes) async fn list(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<Response, RequestError> {
    let servers = servers_of(&app)?.entries(&app);
    let list = ServerList {
        success: true,
        total: servers.len(),
        servers,
    };
    let body = serde_json::to_vec(&list).map_err(|_| ServerError::Unreadable)?;
    let hash = Sha256::digest(&body);
    let hash: String = hash[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let tag = format!("\"{hash}\"");
    let known = headers.get_all(IF_NONE_MATCH).iter();
    let mut known = known.filter_map(|value| value.to_str().ok());
    let is_known = known.any(|value| {
        let mut tags = value.split(',').map(str::trim);
        tags.any(|one| one == "*" || one.trim_start_matches("W/") == tag)
    });
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let kind = HeaderValue::from_static("application/json");
        ([(CONTENT_TYPE, kind)], body).into_response()
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    Ok(response)
}
