use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use pillion_core::tool::{ErrorCode, ToolFailure};
use pillion_mcp_client::MAX_IDENTIFIER_BYTES;
use pillion_wire::{ResourceList, ResourceResponse, UnavailableServer, route};
use serde::Deserialize;
use serde_json::Value;

use super::{PathParameter, require_servers};
use crate::app::App;
use crate::routes::extract::Caller;
use crate::routes::parameters::Parameters;
use pillion_gateway::upstream::Server;
use pillion_gateway::upstream::resources::{self, ReadResourceResult};
use pillion_management::error::{RequestError, Result, RouteError, Status};

/// The MCP server returned an error for the request to read a resource.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message)]
struct ReadError(ToolFailure);

impl RouteError for ReadError {
    fn status(&self) -> Status {
        let status = match self.0.code {
            ErrorCode::NotFound => StatusCode::NOT_FOUND,
            ErrorCode::Denied => StatusCode::FORBIDDEN,
            ErrorCode::InvalidInput => StatusCode::BAD_REQUEST,
            ErrorCode::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            ErrorCode::Timeout => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        };
        (status, self.0.code).into()
    }
}

/// List the resources of an MCP server.
///
/// Requests the list from the server and returns its entries unchanged. If the server fails,
/// `unavailable_servers` has the reason. A token whose list of tools includes no tool of the server
/// sees no resources.
#[utoipa::path(
    get,
    path = route::LIST_SERVER_RESOURCES.path,
    params(
        ("id" = String, Path, description = "The server's ID or name"),
        ("x-pillion-user" = Option<String>, Header, description = "The user on whose behalf the sidecar contacts the server")
    ),
    responses(
        (status = 200, description = "The server's resources", body = ResourceList),
        (status = 404, description = "Server not found"),
        (status = 409, description = "The server is disabled, or not in use for another reason"),
        (status = 503, description = "The sidecar has no store"),
    )
)]
pub(in crate::routes) async fn list(
    State(app): State<App>,
    PathParameter(key): PathParameter,
    caller: Caller,
) -> Result<Json<ResourceList>> {
    let server = require_servers(&app)?.find_in_use(&key, &app)?;
    let mut list = ResourceList {
        success: true,
        ..ResourceList::default()
    };
    if is_visible(&app, &server, &caller).await {
        match resources::list(&server, &caller.context).await {
            Ok(resources) => list.resources = resources,
            Err(failure) => list.unavailable_servers.push(UnavailableServer {
                label: server.label.clone(),
                error: failure.message,
            }),
        }
    }
    list.total = list.resources.len();
    Ok(Json(list))
}

/// The resource to read.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::routes) struct ResourceQuery {
    /// The resource's URI.
    #[param(required = true, value_type = String, min_length = 1)]
    uri: Option<String>,
}

/// Read a resource of an MCP server.
///
/// Requests over TCP need a token with the scope `execute`, as for `/mcp`.
#[utoipa::path(
    get,
    path = route::READ_SERVER_RESOURCE.path,
    params(
        ("id" = String, Path, description = "The server's ID or name"),
        ResourceQuery,
        ("x-pillion-user" = Option<String>, Header, description = "The user on whose behalf the sidecar contacts the server")
    ),
    responses(
        (status = 200, description = "The contents of the resource", body = ResourceResponse),
        (status = 400, description = "The URI is missing or too long"),
        (status = 403, description = "The caller may not use the server"),
        (status = 404, description = "Server not found, or the server has no such resource"),
        (status = 409, description = "The server is disabled, or not in use for another reason"),
        (status = 502, description = "The MCP server failed"),
        (status = 503, description = "The sidecar has no store"),
        (status = 504, description = "The MCP server did not answer in time"),
    )
)]
pub(in crate::routes) async fn read(
    State(app): State<App>,
    PathParameter(key): PathParameter,
    Parameters(query): Parameters<ResourceQuery>,
    caller: Caller,
) -> Result<Json<ResourceResponse>> {
    let is_valid = |uri: &String| (1..=MAX_IDENTIFIER_BYTES).contains(&uri.len());
    let uri = query.uri.filter(is_valid).ok_or_else(|| {
        let expected = format!("the URI of a resource, at most {MAX_IDENTIFIER_BYTES} bytes");
        RequestError::invalid_parameter("uri", expected)
    })?;
    let server = require_servers(&app)?.find_in_use(&key, &app)?;
    let read_outcome = if is_visible(&app, &server, &caller).await {
        resources::read(&server, &uri, &caller.context).await
    } else {
        let message = format!("MCP server '{}': Resource not found", server.label);
        Err(ToolFailure::new(ErrorCode::NotFound, message))
    };
    Ok(Json(to_response(read_outcome.map_err(ReadError)?)))
}

/// Returns whether the caller may see at least one tool of the server.
async fn is_visible(app: &App, server: &Arc<Server>, caller: &Caller) -> bool {
    let upstreams = app.upstreams();
    let visible_servers = upstreams.visible_servers(&caller.context, &caller.visibility);
    visible_servers.await.has(server)
}

fn to_response(ReadResourceResult { contents }: ReadResourceResult) -> ResourceResponse {
    let mut contents = contents.into_iter();
    let first_content = contents.next().unwrap_or_default();
    let text = |key: &str| {
        first_content
            .get(key)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let (content, encoding) = match (text("text"), text("blob")) {
        (Some(text), _) => (text, None),
        (None, Some(blob)) => (blob, Some("base64".to_owned())),
        (None, None) => (String::new(), None),
    };
    ResourceResponse {
        success: true,
        content,
        mime_type: text("mimeType"),
        encoding,
        other_contents: contents.map(Value::Object).collect(),
    }
}
