use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonObject;

/// Request body of `POST /api/v1/chat` and `POST /api/v1/chat/{id}`. A new chat requires either
/// `message` or `messages`; a request that continues a chat after an approval or a failure requires
/// neither.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ChatRequest {
    /// The model's ID, as in `GET /api/v1/models`; the default model if absent. Only for a new
    /// chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The user's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The conversation so far, in the format of OpenAI's Chat Completions.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub messages: Option<Vec<JsonObject>>,
    /// The system prompt. Only for a new chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The user on whose behalf tools run, as in the header `x-pillion-user`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The channel that the chat belongs to, as in the header `x-pillion-channel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Whether the model may use tools. Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_tools: Option<bool>,
    /// Whether the response is a stream of server-sent events. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// The sampling temperature; most models accept 0 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The maximum length of the model's response, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(minimum = 1, maximum = 9007199254740991u64)
    )]
    pub max_output_tokens: Option<u64>,
}

/// The state of a chat: the response body of `POST /api/v1/chat`, and the last event of its stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "openapi",
    derive(utoipa::ToSchema),
    schema(as = ChatAnswer)
)]
#[serde(default)]
pub struct ChatResponse {
    /// Whether the model has returned its final response.
    pub success: bool,
    /// The chat's ID, which continues the chat in `POST /api/v1/chat/{id}`.
    pub id: String,
    /// The model's ID.
    pub model: String,
    /// The chat's status. `answered`: the model has returned its final response.
    /// `awaiting_approval`: tool calls wait for a decision, and a `POST` to the chat continues
    /// after the decision. `failed` or `interrupted`: a `POST` to the chat continues where the chat
    /// stopped. `running`: another request is continuing the chat.
    pub status: String,
    /// The model's response.
    pub content: Option<String>,
    /// The reason why the model's response ended: `stop`, `length` (the response is incomplete),
    /// `content_filter`, or the provider's own value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// The limit that ended the tool calls: `tool_calls` or `tool_rounds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_reached: Option<String>,
    /// The tool calls that this request made, in the order in which the calls ended.
    pub tool_calls: Vec<ChatToolCall>,
    /// The tool calls that wait for approval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ChatApproval>,
    /// The token usage of the chat so far.
    pub usage: ChatUsage,
    /// The error message, if the chat has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The error code, if the chat has failed: one of the values of `Failure.error_code`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The number of seconds after which to retry, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<f64>,
}

/// A tool call in a chat.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ChatToolCall {
    /// The call's ID in the chat.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments from the model: an object, or text if the model did not write valid JSON.
    pub arguments: Value,
    /// Whether the tool succeeded.
    pub success: bool,
    /// The result as the model reads it.
    pub content: String,
    /// The error code of a failed call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
}

/// A tool call that waits for approval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ChatApproval {
    /// The approval's ID, as in `GET /api/v1/approvals`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The call's ID in the chat.
    pub call: String,
    /// The tool's name.
    pub tool: String,
    /// The arguments of the call.
    pub arguments: Value,
}

/// The token usage of a chat, as counted by the provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ChatUsage {
    /// The number of requests to the model.
    #[cfg_attr(feature = "openapi", schema(minimum = 0))]
    pub requests: u64,
    /// The number of input tokens.
    #[cfg_attr(feature = "openapi", schema(minimum = 0))]
    pub input_tokens: u64,
    /// The number of output tokens.
    #[cfg_attr(feature = "openapi", schema(minimum = 0))]
    pub output_tokens: u64,
    /// The number of input tokens that the provider read from its cache.
    #[cfg_attr(feature = "openapi", schema(minimum = 0))]
    pub cached_tokens: u64,
}

/// Response body of `GET /api/v1/chat/{id}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ChatTranscript {
    /// Always true.
    pub success: bool,
    /// The state of the chat. The tool calls are in the messages.
    pub chat: ChatResponse,
    /// The time at which the chat began, in the format of RFC 3339, in UTC.
    pub created_at: String,
    /// The time at which the chat last continued, in the format of RFC 3339, in UTC.
    pub updated_at: String,
    /// The system prompt, in the provider's format, if that format separates it from the messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<Value>,
    /// The messages, in the provider's format.
    pub messages: Vec<Value>,
}

/// Response body of `GET /api/v1/chat`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChatList {
    /// Always true.
    pub success: bool,
    /// The chats, most recently used first.
    pub chats: Vec<ChatResponse>,
}

/// Response body of `DELETE /api/v1/chat/{id}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChatRemoved {
    /// Always true.
    pub success: bool,
    /// The removed chat's ID.
    pub removed: String,
}

/// A language model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ModelEntry {
    /// The model's ID.
    pub id: String,
    /// The model's display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The name of the model's provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The API that the provider speaks: `openai`, `openai-responses`, `anthropic` or `google`.
    /// Absent for a model without a provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// Whether the model is the default for chats.
    pub is_default: bool,
    /// Whether the model supports function calling.
    pub function_calling: bool,
    /// Whether the model may see the tools of MCP servers.
    pub mcp: bool,
    /// The tools that the model may see; empty if the model may see all tools.
    pub enabled_tools: Vec<String>,
    /// The reason why the model cannot be used for chats, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Response body of `GET /api/v1/models`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelList {
    /// Always true.
    pub success: bool,
    /// The models, in the order of the configuration.
    pub models: Vec<ModelEntry>,
}

/// Response body of `GET /api/v1/models/{id}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelResponse {
    /// Always true.
    pub success: bool,
    /// The model.
    pub model: ModelEntry,
    /// All tools that the caller may use, and whether the model sees each tool.
    pub tools: Vec<ModelTool>,
}

/// A tool from the point of view of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelTool {
    /// The tool's name.
    pub name: String,
    /// The label of the tool's MCP server; absent for a local tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Whether the model sees the tool.
    pub visible: bool,
    /// Whether the model's provider calls the tool directly on the MCP server.
    #[serde(default)]
    pub native: bool,
    /// The reason why the model does not see the tool, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A provider of language models.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderEntry {
    /// The provider's name.
    pub name: String,
    /// The API that the provider speaks: `openai`, `openai-responses`, `anthropic` or `google`.
    pub api: String,
    /// The provider's host.
    pub host: String,
    /// The source of the API key: `variable`, `vault` or `none`; `none` includes an environment
    /// variable that is not set.
    pub key: String,
    /// The name of the environment variable that the configuration sets for the API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
}

/// Response body of `GET /api/v1/providers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderList {
    /// Always true.
    pub success: bool,
    /// The providers, in the order of the configuration.
    pub providers: Vec<ProviderEntry>,
}

/// A built-in tool that uses a service with an API key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolKeyEntry {
    /// The tool's name.
    pub tool: String,
    /// The name of the service, such as `brave`.
    pub service: String,
    /// The source of the API key: `variable`, `vault` or `none`.
    pub key: String,
}

/// Response body of `GET /api/v1/tool-keys`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolKeyList {
    /// Always true.
    pub success: bool,
    /// The tools that use a service with an API key.
    pub tools: Vec<ToolKeyEntry>,
}

/// Request body of `PUT /api/v1/providers/{name}/key` and `PUT /api/v1/tool-keys/{tool}`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ProviderKeyInput {
    /// The API key.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 4096))]
    pub key: String,
}

impl std::fmt::Debug for ProviderKeyInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProviderKeyInput").finish_non_exhaustive()
    }
}
