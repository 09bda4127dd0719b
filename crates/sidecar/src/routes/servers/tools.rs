use axum::Json;
use axum::extract::State;
use pillion_wire::{ToolList, UnavailableServer, route};

use super::{PathParameter, require_servers};
use crate::app::App;
use crate::routes::extract::Caller;
use crate::routes::tools::list::summarize_tool;
use pillion_management::error::Result;

/// List the tools of an MCP server.
///
/// Lists the tools that callers can use. If the server's tools are unknown, this request contacts
/// the server; if that fails, `unavailable_servers` has the reason.
#[utoipa::path(
    get,
    path = route::LIST_SERVER_TOOLS.path,
    params(
        ("id" = String, Path, description = "The server's ID or name"),
        ("x-pillion-user" = Option<String>, Header, description = "The user whose tools are listed, for servers that list tools per user")
    ),
    responses(
        (status = 200, description = "The server's tools", body = ToolList),
        (status = 404, description = "Server not found"),
        (status = 503, description = "The sidecar has no store"),
    )
)]
pub(in crate::routes) async fn tools(
    State(app): State<App>,
    PathParameter(key): PathParameter,
    caller: Caller,
) -> Result<Json<ToolList>> {
    let servers = require_servers(&app)?;
    servers.find(&key)?;
    let list_timeout = app.upstreams().list_timeout();
    let (mut unavailable_servers, own_tools) =
        app.list_servers(list_timeout, &caller.context).await;
    unavailable_servers.extend(own_tools.unavailable_servers);
    let entry = servers.entry(&key, &app)?;
    unavailable_servers.retain(|server| server.label == entry.name);
    let problem = match (&entry.error, entry.enabled) {
        _ if !unavailable_servers.is_empty() => None,
        (Some(error), _) => Some(error.clone()),
        (None, false) => Some("the server is disabled".to_owned()),
        (None, true) => None,
    };
    unavailable_servers.extend(problem.map(|error| UnavailableServer {
        label: entry.name.clone(),
        error,
    }));
    let shared_tools = app.upstreams().tools().into_iter();
    let tools: Vec<_> = shared_tools
        .filter(|(_, tool)| tool.server().label == entry.name)
        .filter_map(|(name, _)| app.registry().get(name.as_str()))
        .chain(
            own_tools
                .listed_tools
                .iter()
                .filter(|(_, tool)| tool.server().label == entry.name)
                .filter_map(|(name, _)| own_tools.tools.get(name).cloned()),
        )
        .filter(|tool| caller.visibility.admits(tool, tool.name().as_str()))
        .map(|tool| summarize_tool(&app, &tool))
        .collect();
    Ok(Json(ToolList {
        invalid_tools: Vec::new(),
        success: true,
        total: tools.len(),
        tools,
        unavailable_servers,
    }))
}
