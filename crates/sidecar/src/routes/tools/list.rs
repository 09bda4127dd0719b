use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use pillion_core::compute;
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::ToolOrigin;
use pillion_providers::{Provider, format_tools};
use pillion_wire::{InvalidTool, SchemaList, ToolList, ToolResponse, ToolSummary, route};
use serde::Serialize;

use super::execute::missing_tool_failure;
use super::{ToolFilter, ToolPathError, parameters};
use crate::app::App;
use crate::routes::etag::EntityTags;
use crate::routes::extract::Caller;
use crate::routes::parameters::Parameters;
use pillion_gateway::upstream::UpstreamTool;
use pillion_gateway::{MissingTool, VisibleTools};
use pillion_management::error::Result;

/// Maximum number of tools whose list is serialized on the current thread.
const MAX_INLINE_TOOLS: usize = 200;

/// List the tools with their parameters.
///
/// This request contacts MCP servers whose tools are unknown. `unavailable_servers` has the servers
/// that fail.
#[utoipa::path(
    get,
    path = route::LIST_TOOLS.path,
    params(
        ToolFilter,
        ("x-pillion-user" = Option<String>, Header, description = "The user whose personal tools are included"),
        ("if-none-match" = Option<String>, Header, description = "The `ETag` of the client's copy of the list")
    ),
    responses(
        (status = 200, description = "The tools", body = ToolList),
        (status = 304, description = "The list has not changed"),
    )
)]
pub(in crate::routes) async fn list(
    State(app): State<App>,
    Parameters(filter): Parameters<ToolFilter>,
    caller: Caller,
    client_tags: EntityTags,
) -> Result<Response> {
    respond(app, &filter, caller, client_tags, tool_list).await
}

/// List the tools' schemas in OpenAI's format.
///
/// Like the list of tools, this request contacts MCP servers whose tools are unknown.
#[utoipa::path(
    get,
    path = route::LIST_SCHEMAS.path,
    params(
        ToolFilter,
        ("x-pillion-user" = Option<String>, Header, description = "The user whose personal tools are included"),
        ("if-none-match" = Option<String>, Header, description = "The `ETag` of the client's copy of the list")
    ),
    responses(
        (status = 200, description = "The schemas", body = SchemaList),
        (status = 304, description = "The list has not changed"),
    )
)]
pub(in crate::routes) async fn schemas(
    State(app): State<App>,
    Parameters(filter): Parameters<ToolFilter>,
    caller: Caller,
    client_tags: EntityTags,
) -> Result<Response> {
    respond(app, &filter, caller, client_tags, schema_list).await
}

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
) -> Result<Json<ToolResponse>> {
    let Path(name) = path.map_err(|_| ToolPathError::InvalidName)?;
    let offered_tools = ToolFilter::default().find_tools(&app, &caller).await;
    let own_tool = || offered_tools.caller_tools.tools.get(name.as_str()).cloned();
    let tool = app.registry().get(&name).or_else(own_tool);
    let visibility = &caller.visibility;
    let is_listed =
        |tool: &Arc<RegisteredTool>| tool.tool().is_offered() && visibility.admits(tool, &name);
    let Some(tool) = tool.filter(is_listed) else {
        let (own_tools, unavailable_servers) = (
            &offered_tools.caller_tools,
            &offered_tools.unavailable_servers,
        );
        let missing_tool = MissingTool::find(
            app.upstreams(),
            visibility,
            own_tools,
            &name,
            unavailable_servers,
        );
        let failure = missing_tool_failure(
            &app,
            visibility,
            Some(own_tools),
            &name,
            missing_tool,
            unavailable_servers,
        );
        return Err(ToolPathError::Unknown(Box::new(failure)).into());
    };
    let server_tool = offered_tools.server_tools(&app).swap_remove(tool.name());
    Ok(Json(ToolResponse {
        success: true,
        tool: summarize_with_warnings(&app, &tool, server_tool.as_ref()),
    }))
}

/// Responds with the list that `to_list` creates from the caller's tools. A long list is created on
/// another thread.
async fn respond<L: Serialize + 'static>(
    app: App,
    filter: &ToolFilter,
    caller: Caller,
    client_tags: EntityTags,
    to_list: fn(&App, &Caller, VisibleTools) -> L,
) -> Result<Response> {
    let offered_tools = filter.find_tools(&app, &caller).await;
    let is_short_list = offered_tools.tools.len() <= MAX_INLINE_TOOLS
        && app.upstreams().listed_bytes() <= compute::MAX_INLINE_BYTES;
    let account = format!("list of {:?}", caller.context.principal);
    let build_response = move || client_tags.respond(&to_list(&app, &caller, offered_tools));
    if is_short_list {
        return build_response();
    }
    compute::run(&account, usize::MAX, build_response).await
}

fn tool_list(app: &App, caller: &Caller, offered_tools: VisibleTools) -> ToolList {
    let server_tools = offered_tools.server_tools(app);
    let listed_tools = offered_tools.tools.iter();
    let tools: Vec<_> = listed_tools
        .map(|tool| summarize_with_warnings(app, tool, server_tools.get(tool.name())))
        .collect();
    let mut invalid_tools = app.wasm_tools().faults();
    invalid_tools.retain(|fault| {
        let name = fault.tool.as_deref();
        let visibility = &caller.visibility;
        name.is_none_or(|name| visibility.is_name_visible(name, name, &ToolOrigin::Native))
    });
    invalid_tools.extend(
        offered_tools
            .tools
            .iter()
            .filter_map(|tool| schema_fault(tool)),
    );
    ToolList {
        success: true,
        total: tools.len(),
        tools,
        unavailable_servers: offered_tools.unavailable_servers(),
        invalid_tools,
    }
}

fn schema_list(_app: &App, _caller: &Caller, offered_tools: VisibleTools) -> SchemaList {
    let definitions = offered_tools.tools.iter().map(|tool| tool.definition());
    let schemas = format_tools(Provider::OpenAiChat, definitions);
    SchemaList {
        success: true,
        total: schemas.len(),
        schemas,
        unavailable_servers: offered_tools.unavailable_servers(),
    }
}

/// Returns why calls of the tool are rejected, if its schema cannot be used.
pub(in crate::routes) fn schema_fault(tool: &RegisteredTool) -> Option<InvalidTool> {
    let error = tool.schema_fault()?;
    let code = if error.exceeds_limit() {
        "schema_too_large"
    } else {
        "invalid_schema"
    };
    Some(InvalidTool {
        tool: Some(tool.name().to_string()),
        code: code.to_owned(),
        error: format!(
            "calls are rejected because of the tool's schema: {}",
            error.reason
        ),
        previous_version_offered: false,
    })
}

/// Converts a tool to its representation in the REST API, with warnings about hidden text in the
/// definition of a server's tool.
fn summarize_with_warnings(
    app: &App,
    tool: &RegisteredTool,
    server_tool: Option<&Arc<UpstreamTool>>,
) -> ToolSummary {
    let warnings = server_tool.map(|tool| tool.warnings().to_vec());
    ToolSummary {
        warnings: warnings.unwrap_or_default(),
        ..summarize_tool(app, tool)
    }
}

/// Converts a tool to its representation in the REST API.
pub(in crate::routes) fn summarize_tool(app: &App, tool: &RegisteredTool) -> ToolSummary {
    let definition = tool.definition();
    let name = definition.name().to_string();
    let (label, url) = match tool.origin() {
        ToolOrigin::Mcp {
            server_label,
            server_url,
        } => (Some(server_label), Some(server_url)),
        _ => (None, None),
    };
    let server_tool = label.map(|label| {
        let prefix = app.tool_prefix(label);
        name.strip_prefix(prefix).unwrap_or(&name).to_owned()
    });
    ToolSummary {
        description: definition.description().to_owned(),
        parameters: parameters::from_schema(definition.input_schema()),
        category: definition.category().to_owned(),
        server_label: label.cloned(),
        server_url: url.cloned(),
        server_tool,
        warnings: Vec::new(),
        name,
    }
}
