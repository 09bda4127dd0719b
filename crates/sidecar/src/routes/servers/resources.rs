use axum::Json;
use axum::extract::State;
use pillion_core::tool::{ErrorCode, ToolFailure};
use pillion_wire::{ResourceAnswer, ResourceList, UnavailableServer};
use serde::Deserialize;
use serde_json::Value;

use super::{ServerKey, in_use, servers_of};
use crate::app::App;
use crate::routes::caller::Caller;
use crate::routes::error::RequestError;
use crate::routes::parameters::Parameters;
use crate::upstream::Reading;

/// Lists the resources of one MCP server, which is queried now.
#[utoipa::path(
    get,
    path = "/api/v1/servers/{id}/resources",
    tag = "servers",
    operation_id = "resources_list",
    summary = "List the resources of one MCP server",
    description = "As the server wrote them. It is asked now; `unavailable_servers` says why it has told nothing. A token with a list of tools that has none of the server's sees none.",
    params(
        ("id" = String, Path, description = "The server's id or name"),
        ("x-pillion-user" = Option<String>, Header, description = "The user on whose behalf the server is asked")
    ),
    responses(
        (status = 200, description = "Its resources", body = ResourceList),
        (status = 404, description = "Server not found"),
        (status = 409, description = "It is not in use"),
        (status = 503, description = "This sidecar keeps no servers"),
    )
)]
pub(in crate::routes) async fn list(
    State(app): State<App>,
    ServerKey(key): ServerKey,
    Caller {
        context,
        visibility,
        ..
    }: Caller,
) -> Result<Json<ResourceList>, RequestError> {
    let server = in_use(&app, &*servers_of(&app)?, &key)?;
    let seen = app.upstreams().seen(&context, &visibility).await;
    let listed = match seen.has(&server) {
        true => server.resources(&context).await,
        false => Ok(Vec::new()),
    };
    let (listed, unavailable) = match listed {
        Ok(listed) => (listed, None),
        Err(failure) => (Vec::new(), Some(failure.message)),
    };
    let resources = listed.iter();
    let resources: Vec<Value> = resources
        .filter_map(|resource| serde_json::from_str(resource.get()).ok())
        .collect();
    let unavailable = unavailable.map(|error| UnavailableServer {
        label: server.label.clone(),
        error,
    });
    Ok(Json(ResourceList {
        success: true,
        total: resources.len(),
        resources,
        unavailable_servers: unavailable.into_iter().collect(),
    }))
}

/// The resource to read.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::routes) struct ResourceQuery {
    /// The resource's URI.
    #[param(required = true, value_type = String, min_length = 1)]
    uri: Option<String>,
}

/// Reads a resource of one MCP server.
#[utoipa::path(
    get,
    path = "/api/v1/servers/{id}/resources/read",
    tag = "servers",
    operation_id = "resources_read",
    summary = "Read a resource of one MCP server",
    description = "Over TCP it needs a token of scope `execute`, as at `/mcp`.",
    params(
        ("id" = String, Path, description = "The server's id or name"),
        ResourceQuery,
        ("x-pillion-user" = Option<String>, Header, description = "The user on whose behalf the server is asked")
    ),
    responses(
        (status = 200, description = "What it holds", body = ResourceAnswer),
        (status = 400, description = "There is no URI"),
        (status = 403, description = "The caller may not use the server"),
        (status = 404, description = "There is no such server, or it has no such resource"),
        (status = 409, description = "The server is not in use"),
        (status = 502, description = "The server failed"),
        (status = 503, description = "This sidecar keeps no servers"),
        (status = 504, description = "The server did not answer in time"),
    )
)]
pub(in crate::routes) async fn read(
    State(app): State<App>,
    ServerKey(key): ServerKey,
    Parameters(wanted): Parameters<ResourceQuery>,
    Caller {
        context,
        visibility,
        ..
    }: Caller,
) -> Result<Json<ResourceAnswer>, RequestError> {
    let uri = wanted.uri.filter(|uri| !uri.is_empty());
    let uri = uri.ok_or_else(|| RequestError::parameter("uri", "the URI of a resource"))?;
    let server = in_use(&app, &*servers_of(&app)?, &key)?;
    let seen = app.upstreams().seen(&context, &visibility).await;
    let reading = match seen.has(&server) {
        true => server.read(&uri, &context).await,
        false => Err(ToolFailure::new(
            ErrorCode::NotFound,
            format!("MCP server '{}': Resource not found", server.label),
        )),
    };
    Ok(Json(answer(reading.map_err(RequestError::Upstream)?)))
}

fn answer(Reading { contents }: Reading) -> ResourceAnswer {
    let mut contents = contents.into_iter();
    let first = contents.next().unwrap_or_default();
    let text = |key: &str| first.get(key).and_then(Value::as_str).map(str::to_owned);
    let (content, encoding) = match (text("text"), text("blob")) {
        (Some(text), _) => (text, None),
        (None, Some(blob)) => (blob, Some("base64".to_owned())),
        (None, None) => (String::new(), None),
    };
    ResourceAnswer {
        success: true,
        content,
        mime_type: text("mimeType"),
        encoding,
        further: contents.map(Value::Object).collect(),
    }
}
