//! Routes under `/api/v1/models`: the language models and the tools that each model may use.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use pillion_core::capability::DropReason;
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::ToolOrigin;
use pillion_wire::{ModelEntry, ModelList, ModelResponse, ModelTool, route};

use super::etag::EntityTags;
use super::extract::Caller;
use super::parameters::PathParameter;
use crate::app::App;
use pillion_gateway::models::{Model, NativeTools};
use pillion_management::chat::ChatRejection;
use pillion_management::error::Result;

/// List the language models.
#[utoipa::path(
    get,
    path = route::LIST_MODELS.path,
    params(("if-none-match" = Option<String>, Header, description = "The `ETag` of the client's copy of the list")),
    responses(
        (status = 200, description = "The models", body = ModelList),
        (status = 304, description = "The list has not changed"),
    )
)]
pub(super) async fn list(State(app): State<App>, client_tags: EntityTags) -> Result<Response> {
    let models = app.models().iter();
    client_tags.respond(&ModelList {
        success: true,
        models: models.map(|model| build_entry(&app, model)).collect(),
    })
}

/// Show a language model, and which tools it may use.
///
/// Each tool of the caller has a flag that says whether the model may use it, and the reason if the
/// model may not. Like the list of tools, this request contacts MCP servers whose tools are
/// unknown.
#[utoipa::path(
    get,
    path = route::SHOW_MODEL.path,
    params(
        ("id" = String, Path, description = "The model's name, percent-encoded"),
        ("x-pillion-user" = Option<String>, Header, description = "The user whose personal tools are included")
    ),
    responses(
        (status = 200, description = "The model and the tools", body = ModelResponse),
        (status = 403, description = "The token is for another user"),
        (status = 404, description = "Model not found"),
    )
)]
pub(super) async fn show(
    State(app): State<App>,
    PathParameter(id): PathParameter,
    caller: Caller,
) -> Result<Json<ModelResponse>> {
    let Some(model) = app.models().get(&id) else {
        return Err(ChatRejection::UnknownModel { id }.into());
    };
    let offered_tools = app
        .list_visible_tools(&caller.context, &caller.visibility)
        .await;
    let tools = offered_tools.tools.iter();
    let admitted_tools = tools
        .clone()
        .filter(|tool| drop_reason(model, tool).is_none());
    let native_tools = NativeTools::for_model(
        model,
        app.executor(),
        &admitted_tools.cloned().collect::<Vec<_>>(),
    );
    Ok(Json(ModelResponse {
        success: true,
        model: build_entry(&app, model),
        tools: tools
            .map(|tool| model_tool(model, &native_tools, tool))
            .collect(),
    }))
}

fn build_entry(app: &App, model: &Model) -> ModelEntry {
    let config = &model.config;
    let default_model = app.models().default();
    ModelEntry {
        id: config.id.clone(),
        label: config.label.clone(),
        provider: config.provider.clone(),
        api: model.api.map(|api| api.to_string()),
        is_default: default_model.is_some_and(|default_model| default_model.config.id == config.id),
        function_calling: config.tools.function_calling,
        mcp: config.tools.mcp,
        enabled_tools: config.tools.enabled_tools.clone(),
        problem: model.client.as_ref().err().map(ToString::to_string),
    }
}

/// Returns why the model may not use a tool; `None` if it may.
fn drop_reason(model: &Model, tool: &RegisteredTool) -> Option<DropReason> {
    let tools = &model.config.tools;
    tools.admit(tool.name().as_str(), tool.origin()).err()
}

fn model_tool(model: &Model, native_tools: &NativeTools, tool: &RegisteredTool) -> ModelTool {
    let reason = drop_reason(model, tool);
    ModelTool {
        name: tool.name().to_string(),
        server: match tool.origin() {
            ToolOrigin::Mcp { server_label, .. } => Some(server_label.clone()),
            _ => None,
        },
        visible: reason.is_none(),
        native: native_tools.has(tool.name()),
        reason: reason.map(|reason| reason.to_string()),
    }
}
