use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonObject;

/// The body of `POST /api/v1/chat`, and of `POST /api/v1/chat/{id}` (requirement H7). Of `message`
/// and `messages` a new chat has one; to go on with one whose calls waited, neither is needed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ChatRequest {
    /// The model's name, as `GET /api/v1/models` lists it; the default one where it is absent. Only
    /// for a new chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the user says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The conversation so far, in the shapes of OpenAI's chat completions.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub messages: Option<Vec<JsonObject>>,
    /// What the model is told before the conversation. Only for a new chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// On whose behalf the tools run; so does the header `x-pillion-user`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The channel that it belongs to; so does the header `x-pillion-channel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Whether the model may use tools. Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_tools: Option<bool>,
    /// Whether the answer is a stream of server-sent events. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// How much chance there is in the answer, 0 to 2 for most models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The longest answer, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(minimum = 1, maximum = 9007199254740991u64)
    )]
    pub max_output_tokens: Option<u64>,
}

/// How a chat goes: the answer of `POST /api/v1/chat`, and the last event of its stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ChatAnswer {
    /// Whether the model has answered.
    pub success: bool,
    /// The chat's id, to go on with it.
    pub id: String,
    /// The model's name.
    pub model: String,
    /// `answered`; `awaiting_approval`: calls wait for somebody's decision, and a `POST` to the chat
    /// goes on after it; `failed` or `interrupted`: nothing is lost, and a `POST` to the
    /// chat goes on where it was; `running`: a request goes on with it now.
    pub status: String,
    /// What the model says.
    pub content: Option<String>,
    /// Why its answer ended: `stop`, `length` when it is incomplete, `content_filter`, or the provider's
    /// own word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// `tool_calls` or `tool_rounds` where that limit made it answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_reached: Option<String>,
    /// The calls of this request, in the order in which they ended.
    pub tool_calls: Vec<ChatToolCall>,
    /// The calls that wait.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ChatApproval>,
    /// What the chat has cost up to here.
    pub usage: ChatUsage,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Which kind of failure it is (requirement C5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// After how many seconds to try again, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<f64>,
}

/// A tool call in a chat.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ChatToolCall {
    /// Its id in the chat.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What the model gave it: an object, or text where that is no JSON.
    pub arguments: Value,
    /// Whether it did what it was asked.
    pub success: bool,
    /// What the model was told.
    pub content: String,
    /// Which kind of failure it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
}

/// A call that waits for somebody's approval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ChatApproval {
    /// The approval's id, as `GET /api/v1/approvals` lists it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The call's id in the chat.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// What it would run with.
    pub arguments: Value,
}

/// What a chat has cost, in tokens as the provider counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ChatUsage {
    /// Requests to the model.
    #[cfg_attr(feature = "openapi", schema(minimum = 0))]
    pub requests: u64,
    /// Tokens read.
    #[cfg_attr(feature = "openapi", schema(minimum = 0))]
    pub input_tokens: u64,
    /// Tokens written.
    #[cfg_attr(feature = "openapi", schema(minimum = 0))]
    pub output_tokens: u64,
    /// Tokens read from the provider's cache.
    #[cfg_attr(feature = "openapi", schema(minimum = 0))]
    pub cached_tokens: u64,
}

/// The answer of `GET /api/v1/chat/{id}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ChatTranscript {
    /// Always true.
    pub success: bool,
    /// How it goes; the calls of single requests are in the messages.
    pub chat: ChatAnswer,
    /// When it began, RFC 3339 in UTC.
    pub created_at: String,
    /// When it went on last.
    pub updated_at: String,
    /// What the model is told beside the messages, in the provider's shape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<Value>,
    /// The messages in the shapes of the model's provider.
    pub messages: Vec<Value>,
}

/// The answer of `GET /api/v1/chat`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChatList {
    /// Always true.
    pub success: bool,
    /// The chats, those first that went on last.
    pub chats: Vec<ChatAnswer>,
}

/// The answer of `DELETE /api/v1/chat/{id}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChatRemoved {
    /// Always true.
    pub success: bool,
    /// The chat's id.
    pub removed: String,
}

/// A language model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ModelEntry {
    /// Its name here.
    pub id: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// How the provider is spoken to: `openai`, `openai-responses`, `anthropic`, `google`. Absent
    /// where there is nobody to speak to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// Whether chats that name none are with it.
    pub is_default: bool,
    /// Whether it can call functions.
    pub function_calling: bool,
    /// Whether it may see the tools of MCP servers.
    pub mcp: bool,
    /// The only tools that it may see; empty means all.
    pub enabled_tools: Vec<String>,
    /// Why no chat with it is possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The answer of `GET /api/v1/models`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelList {
    /// Always true.
    pub success: bool,
    /// The models, in the order of the configuration.
    pub models: Vec<ModelEntry>,
}

/// The answer of `GET /api/v1/models/{id}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelAnswer {
    /// Always true.
    pub success: bool,
    /// The model.
    pub model: ModelEntry,
    /// Every tool that there is for the caller, and whether the model sees it.
    pub tools: Vec<ModelTool>,
}

/// A tool, as a model has it (requirement H2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelTool {
    /// The tool.
    pub name: String,
    /// The MCP server that it is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Whether the model sees it.
    pub visible: bool,
    /// Whether its provider calls the tool by itself, instead of having it called here.
    #[serde(default)]
    pub native: bool,
    /// Why it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A provider of language models.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderEntry {
    /// Its name here.
    pub name: String,
    /// How it is spoken to.
    pub api: String,
    /// The host that it is at.
    pub host: String,
    /// Where its key comes from: `variable`, `vault`, or `none`, also where the variable is not set.
    pub key: String,
    /// The variable that is to have its key, where the configuration names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
}

/// The answer of `GET /api/v1/providers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderList {
    /// Always true.
    pub success: bool,
    /// The providers, in the order of the configuration.
    pub providers: Vec<ProviderEntry>,
}

/// A built-in tool whose service wants a key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolKeyEntry {
    /// The tool.
    pub tool: String,
    /// The service that it asks, such as `brave`.
    pub service: String,
    /// Where its key comes from: `variable`, `vault`, or `none`.
    pub key: String,
}

/// The answer of `GET /api/v1/tool-keys`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolKeyList {
    /// Always true.
    pub success: bool,
    /// The tools.
    pub tools: Vec<ToolKeyEntry>,
}

/// The body of `PUT /api/v1/providers/{name}/key` and of `PUT /api/v1/tool-keys/{tool}`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ProviderKeyInput {
    /// The key.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 4096))]
    pub key: String,
}

impl std::fmt::Debug for ProviderKeyInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProviderKeyInput").finish_non_exhaustive()
    }
}
