//! The formats of model providers, for clients that talk to a provider themselves.

use axum::Json;
use pillion_core::compute;
use pillion_core::tool::{DefinitionError, ToolCall, ToolDefinition, ToolResult};
use pillion_providers::{
    Provider, ProviderError, StrictFlag, UnknownProvider, assistant_messages, assistant_text,
    format_results, format_tools_with, parse_tool_calls,
};
use pillion_wire::route;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::extract::{AnyJson, Caller, ObjectBody};
use super::parameters::Parameters;
use pillion_management::error::{INVALID_INPUT, Result, route_error};

route_error! {
    /// The reason why a conversion is rejected.
    #[derive(Debug, thiserror::Error)]
    enum FormatError {
        #[error(transparent)]
        Provider(#[from] UnknownProvider) => INVALID_INPUT,
        #[error(transparent)]
        Definition(#[from] DefinitionError) => INVALID_INPUT,
        #[error(transparent)]
        Response(#[from] ProviderError) => INVALID_INPUT,
    }
}

/// The query that names the model provider whose format a conversion uses.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ProviderQuery {
    /// The model provider: `openai`, `openai-responses`, `anthropic` or `google`.
    provider: String,
}

impl ProviderQuery {
    fn provider(&self) -> Result<Provider, FormatError> {
        Ok(self.provider.parse::<Provider>()?)
    }
}

/// Tool definitions.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Definitions {
    tools: Vec<Definition>,
    /// Whether tools in OpenAI's chat format always have the member `strict`, even if a tool is not
    /// strict.
    #[serde(default)]
    always_strict: bool,
}

/// The definition of a tool.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct Definition {
    name: String,
    description: String,
    /// The JSON Schema of the arguments.
    #[schema(value_type = Object)]
    input_schema: Map<String, Value>,
    #[serde(default)]
    strict: bool,
}

/// Definitions in the format of a provider.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct FormattedTools {
    /// Always true.
    success: bool,
    /// The entries for the member `tools` of a request to the provider; for Google, those for
    /// `functionDeclarations`.
    #[schema(value_type = Vec<Object>)]
    tools: Vec<Value>,
}

/// Convert tool definitions.
#[utoipa::path(
    post,
    path = route::FORMAT_TOOLS.path,
    params(ProviderQuery),
    request_body(content = Definitions, content_type = "application/json"),
    responses(
        (status = 200, description = "The tools for the provider's request; none for an unknown provider", body = FormattedTools),
        (status = 400, description = "A definition is invalid"),
    )
)]
pub(super) async fn tools(
    caller: Caller,
    Parameters(query): Parameters<ProviderQuery>,
    ObjectBody(definitions): ObjectBody<Definitions>,
) -> Result<Json<FormattedTools>> {
    let Ok(provider) = query.provider() else {
        return Ok(Json(FormattedTools {
            success: true,
            tools: Vec::new(),
        }));
    };
    let strict_flag = if definitions.always_strict {
        StrictFlag::Always
    } else {
        StrictFlag::WhenTrue
    };
    let account = format!("formats of {:?}", caller.context.principal);
    // The size of the work is `usize::MAX`, so that the conversion always runs on another thread,
    // because references in schemas multiply the work and the list may be long.
    let tools = compute::run(&account, usize::MAX, move || {
        let build = |tool: Definition| {
            ToolDefinition::builder(tool.name, tool.description)
                .schema(Value::Object(tool.input_schema))
                .strict(tool.strict)
                .build()
        };
        let tools = definitions.tools.into_iter().map(build);
        let tool_definitions = tools.collect::<Result<Vec<_>, _>>()?;
        Ok::<_, FormatError>(format_tools_with(provider, &tool_definitions, strict_flag))
    });
    Ok(Json(FormattedTools {
        success: true,
        tools: tools.await?,
    }))
}

/// The tool calls of a response.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ParsedCalls {
    /// Always true.
    success: bool,
    /// The calls, in order. Each has `id`, `name`, `arguments` and, if the provider sent it,
    /// `index`.
    #[schema(value_type = Vec<Object>)]
    calls: Vec<ToolCall>,
}

/// Extract the tool calls from a model provider's response.
#[utoipa::path(
    post,
    path = route::PARSE_TOOL_CALLS.path,
    params(ProviderQuery),
    request_body(content = Value, content_type = "application/json", description = "The body of the provider's response"),
    responses(
        (status = 200, description = "The calls", body = ParsedCalls),
        (status = 400, description = "The provider is unknown, or the body is not a valid response of it, or reports an error"),
    )
)]
pub(super) async fn tool_calls(
    Parameters(query): Parameters<ProviderQuery>,
    AnyJson(response): AnyJson,
) -> Result<Json<ParsedCalls>> {
    let calls = parse_tool_calls(query.provider()?, &response).map_err(FormatError::from)?;
    Ok(Json(ParsedCalls {
        success: true,
        calls,
    }))
}

/// The text of a response.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ResponseText {
    /// Always true.
    success: bool,
    /// The text of the response; empty if the response has no text.
    text: String,
}

/// Extract the text from a model provider's response.
#[utoipa::path(
    post,
    path = route::PARSE_TEXT.path,
    params(ProviderQuery),
    request_body(content = Value, content_type = "application/json", description = "The body of the provider's response"),
    responses(
        (status = 200, description = "The text", body = ResponseText),
        (status = 400, description = "The provider is unknown, or the body is not a valid response of it, or reports an error"),
    )
)]
pub(super) async fn text(
    Parameters(query): Parameters<ProviderQuery>,
    AnyJson(response): AnyJson,
) -> Result<Json<ResponseText>> {
    let text = assistant_text(query.provider()?, &response).map_err(FormatError::from)?;
    Ok(Json(ResponseText {
        success: true,
        text,
    }))
}

/// Messages in the format of a provider.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Messages {
    /// Always true.
    success: bool,
    /// The messages, to append to the conversation.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<Value>,
}

/// Extract the messages from a model provider's response.
#[utoipa::path(
    post,
    path = route::PARSE_MESSAGES.path,
    params(ProviderQuery),
    request_body(content = Value, content_type = "application/json", description = "The body of the provider's response"),
    responses(
        (status = 200, description = "The messages", body = Messages),
        (status = 400, description = "The provider is unknown, or the body is not a valid response of it, or reports an error"),
    )
)]
pub(super) async fn messages(
    Parameters(query): Parameters<ProviderQuery>,
    AnyJson(response): AnyJson,
) -> Result<Json<Messages>> {
    let messages = assistant_messages(query.provider()?, &response).map_err(FormatError::from)?;
    Ok(Json(Messages {
        success: true,
        messages,
    }))
}

/// Results of tool calls.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(super) struct Results {
    results: Vec<CallResult>,
}

/// The result of a tool call.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
struct CallResult {
    tool_call_id: String,
    tool_name: String,
    success: bool,
    /// The output for the model.
    #[serde(default)]
    result: Value,
    /// The error message of a failed call.
    #[serde(default)]
    error: Option<String>,
}

/// Convert results of tool calls.
#[utoipa::path(
    post,
    path = route::FORMAT_RESULTS.path,
    params(ProviderQuery),
    request_body(content = Results, content_type = "application/json"),
    responses(
        (status = 200, description = "The messages", body = Messages),
        (status = 400, description = "The provider is unknown"),
    )
)]
pub(super) async fn results(
    Parameters(query): Parameters<ProviderQuery>,
    ObjectBody(Results { results }): ObjectBody<Results>,
) -> Result<Json<Messages>> {
    let provider = query.provider()?;
    let to_result = |result: CallResult| ToolResult {
        success: result.success,
        error: result.error,
        ..ToolResult::success(result.tool_call_id, result.tool_name, result.result)
    };
    let results: Vec<_> = results.into_iter().map(to_result).collect();
    Ok(Json(Messages {
        success: true,
        messages: format_results(provider, &results),
    }))
}
