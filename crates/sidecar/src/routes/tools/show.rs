use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use pillion_core::registry::RegisteredTool;
use pillion_wire::{ToolResponse, route};

use super::list::with_warnings;
use super::{Filter, ToolPathError, answer};
use crate::app::App;
use crate::routes::caller::Caller;
use crate::routes::error::RequestError;

/// Show a tool with its parameters.
///
/// Returns the tool's entry in the list of tools. Like the list, this request contacts MCP servers
/// whose tools are unknown.
#[utoipa::path(
    get,
    path = route::SHOW_TOOL.path,
    params(
        ("tool_name" = String, Path, description = "The tool's name or an alias of it", example = "calculator"),
        ("x-pillion-user" = Option<String>, Header, description = "The user whose personal tools are included")
    ),
    responses(
        (status = 200, description = "The tool", body = ToolResponse),
        (status = 404, description = "Tool not found, or not available to the caller"),
        (status = 503, description = "The tool's MCP server is unavailable"),
    )
)]
pub(in crate::routes) async fn show(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    caller: Caller,
) -> Result<Json<ToolResponse>, RequestError> {
    let Path(name) = path.map_err(|_| ToolPathError::InvalidName)?;
    let listed = Filter::default().listed(&app, &caller).await;
    let own = || listed.own.tools.get(name.as_str()).cloned();
    let tool = app.registry().get(&name).or_else(own);
    let visibility = &caller.visibility;
    let is_listed =
        |tool: &Arc<RegisteredTool>| tool.tool().is_offered() && visibility.admits(tool, &name);
    let Some(tool) = tool.filter(is_listed) else {
        let (own, unavailable) = (&listed.own, &listed.unavailable_servers);
        let missing = app.missing_tool(visibility, own, &name, unavailable);
        let own = Some(own);
        let failure = answer::unknown(&app, visibility, own, &name, missing, unavailable);
        return Err(ToolPathError::Unknown(Box::new(failure)).into());
    };
    let server_tool = listed.server_tools(&app).swap_remove(tool.name());
    Ok(Json(ToolResponse {
        success: true,
        tool: with_warnings(&app, &tool, server_tool.as_ref()),
    }))
}
