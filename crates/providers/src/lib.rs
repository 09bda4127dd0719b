//! The APIs of model providers: requests, responses and errors, tool definitions, tool calls and
//! tool results.
//!
//! Everything about one provider is in the module with its name, which implements [`ToolFormat`]
//! and [`ProviderApi`]; only [`Provider::api`] distinguishes all providers. The crate does no I/O:
//! all functions are pure conversions from JSON to JSON. One round with a model consists of three
//! steps:
//!
//! 1. [`format_tools`]: the `tools` of the request;
//! 2. [`parse_tool_calls`]: the calls in the response;
//! 3. [`assistant_messages`], then [`format_results`]: the messages to append to the conversation
//!    before the next request.
//!
//! ```
//! use pillion_providers::{Provider, assistant_messages, format_results, parse_tool_calls};
//! use pillion_core::tool::ToolResult;
//! use serde_json::json;
//!
//! let provider: Provider = "anthropic".parse()?;
//! let response = json!({
//!     "role": "assistant",
//!     "content": [{
//!         "type": "tool_use",
//!         "id": "toolu_1",
//!         "name": "calculator",
//!         "input": {"expression": "1+1"},
//!     }],
//!     "stop_reason": "tool_use",
//! });
//! let calls = parse_tool_calls(provider, &response)?;
//! let result = ToolResult::success(&calls[0].id, &calls[0].name, json!("2"));
//!
//! let mut conversation = vec![json!({"role": "user", "content": "What is 1+1?"})];
//! conversation.extend(assistant_messages(provider, &response)?);
//! conversation.extend(format_results(provider, &[result]));
//! assert_eq!(conversation[2]["content"][0]["tool_use_id"], "toolu_1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod anthropic;
mod api;
mod ending;
mod error;
mod event;
mod failure;
mod google;
mod message;
mod native;
mod node;
mod offered_tool;
mod openai;
mod openai_chat;
mod openai_responses;
mod provider;
mod redaction;
mod request;
mod result_media;
#[cfg(test)]
mod tests;
mod tool_format;
mod transcript;
mod turn;

pub use api::{Endpoint, ProviderApi, TurnStream};
pub use error::{ModelError, ModelErrorKind, ProviderError};
pub use native::{NativeApproval, NativeCall, NativeCalls, NativeMcpServer};
pub use node::JsonFault;
pub use provider::{Provider, UnknownProvider};
pub use result_media::excess_result_media;
pub use tool_format::ToolFormat;
pub use transcript::TranscriptPart;
pub use turn::{
    Delta, Finish, ModelTurn, ProviderConversation, ProviderMembers, ToolChoice, TurnOptions,
    TurnResponse, Usage,
};

use pillion_core::tool::{ToolCall, ToolDefinition, ToolResult};
use serde_json::Value;

use anthropic::Anthropic;
use google::Google;
use node::Node;
use openai_chat::OpenAiChat;
use openai_responses::OpenAiResponses;

/// Runs the examples in the reference documentation as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/reference/models-and-tools.md")]
#[doc = include_str!("../../../docs/reference/provider-formats.md")]
struct ProviderGuideDoctests;

impl Provider {
    /// Returns the provider's API. All other code is independent of the set of providers.
    #[must_use]
    pub fn api(self) -> &'static dyn ProviderApi {
        match self {
            Self::OpenAiChat => &OpenAiChat,
            Self::OpenAiResponses => &OpenAiResponses,
            Self::Anthropic => &Anthropic,
            Self::Google => &Google,
        }
    }
}

/// Whether [`format_tool`] always adds `strict`, or only the value `true`, to a tool in the format
/// of [`Provider::OpenAiChat`]. The other formats ignore this flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StrictFlag {
    /// `strict` is present only with the value `true`, as in the sidecar's list of schemas.
    #[default]
    WhenTrue,
    /// `strict` is always present, as in HAWKI's `toOpenAiFormat`.
    Always,
}

/// Formats the definition of a tool for `provider`.
///
/// | provider | shape |
/// | --- | --- |
/// | `OpenAiChat` | `{type: "function", function: {name, description, parameters, strict?}}` |
/// | `OpenAiResponses` | `{type: "function", name, description, parameters, strict}` |
/// | `Anthropic` | `{name, description, input_schema}` |
/// | `Google` | `{name, description, parameters}`, an entry of `functionDeclarations` |
///
/// `OpenAiResponses` always contains `strict`, whatever `strict_flag` is: that API treats a missing
/// `strict` as `true` and makes all parameters required.
///
/// OpenAI rejects a request if the schema of a strict tool does not have the required form. The
/// schema of a strict tool is therefore converted: every property is required, optional properties
/// may be `null` (which the executor treats as absent), and every object is closed. If a schema
/// cannot be converted, because of free-form maps, tuples, `oneOf`, `allOf`, `minLength` or other
/// keywords that OpenAI does not list, `strict` is false or absent.
///
/// For `Google`, the schema is converted to Gemini's `Schema`, a subset of OpenAPI 3.0, because
/// Gemini rejects a request with an unknown keyword. The converted schema may allow more than the
/// original; the executor validates arguments against the original. References are resolved up to a
/// maximum size of the result; schemas beyond this size are reduced to their type.
///
/// ```
/// use pillion_providers::{Provider, StrictFlag, format_tool};
/// use pillion_core::tool::ToolDefinition;
/// use serde_json::json;
/// let tool = ToolDefinition::builder("ping", "Says pong").build()?;
/// assert_eq!(
///     format_tool(Provider::Anthropic, &tool, StrictFlag::WhenTrue),
///     json!({"name": "ping", "description": "Says pong",
///            "input_schema": {"type": "object", "properties": {}, "required": []}}),
/// );
/// # Ok::<(), pillion_core::tool::DefinitionError>(())
/// ```
#[must_use]
pub fn format_tool(provider: Provider, tool: &ToolDefinition, strict_flag: StrictFlag) -> Value {
    provider.api().format_tool(tool, strict_flag, 1)
}

/// Formats the definitions of several tools for `provider` in order, with [`StrictFlag::WhenTrue`].
/// For Google, the result is the entries of `functionDeclarations`; for the other providers, the
/// `tools` of the request.
///
/// The result is at most a few times larger than the definitions, plus a fixed size for the whole
/// list. This limit keeps nested references from turning a short list into a large request.
///
/// ```
/// use pillion_providers::{Provider, format_tools};
/// use pillion_core::tool::ToolDefinition;
/// use serde_json::json;
/// let tool = ToolDefinition::builder("ping", "Says pong").build()?;
/// let request = json!({
///     "contents": [{"role": "user", "parts": [{"text": "Ping?"}]}],
///     "tools": [{"functionDeclarations": format_tools(Provider::Google, [&tool])}],
/// });
/// assert_eq!(request["tools"][0]["functionDeclarations"][0]["name"], "ping");
/// # Ok::<(), pillion_core::tool::DefinitionError>(())
/// ```
#[must_use]
pub fn format_tools<'a>(
    provider: Provider,
    tools: impl IntoIterator<Item = &'a ToolDefinition>,
) -> Vec<Value> {
    format_tools_with(provider, tools, StrictFlag::WhenTrue)
}

/// Formats tools like [`format_tools`], with a choice of `strict_flag`.
#[must_use]
pub fn format_tools_with<'a>(
    provider: Provider,
    tools: impl IntoIterator<Item = &'a ToolDefinition>,
    strict_flag: StrictFlag,
) -> Vec<Value> {
    tool_format::format_all(provider.api(), tools, strict_flag)
}

/// Formats tools like [`format_tools`], for a provider given by name. Returns no tools if
/// [`Provider`] does not know the name.
///
/// ```
/// use pillion_providers::format_tools_by_name;
/// use pillion_core::tool::ToolDefinition;
/// let tool = ToolDefinition::builder("ping", "Says pong").build()?;
/// assert_eq!(format_tools_by_name("gemini", [&tool]).len(), 1);
/// assert!(format_tools_by_name("hal9000", [&tool]).is_empty());
/// # Ok::<(), pillion_core::tool::DefinitionError>(())
/// ```
#[must_use]
pub fn format_tools_by_name<'a>(
    provider: &str,
    tools: impl IntoIterator<Item = &'a ToolDefinition>,
) -> Vec<Value> {
    match provider.parse() {
        Ok(provider) => format_tools(provider, tools),
        Err(UnknownProvider(_)) => Vec::new(),
    }
}

/// Parses the tool calls in a complete response body, in order. Returns an empty list for a body
/// without calls.
///
/// Uses the first of several choices or candidates. Skips calls of tools that run at the provider,
/// and calls that are not function calls. Arguments are returned unchanged: a string is not parsed
/// here, so that invalid JSON becomes a failed result in the executor. Missing arguments, and `[]`,
/// PHP's encoding of `{}`, become `{}`.
///
/// Google may omit the ID of a call. The call then gets an ID that begins with `pillion_call_`,
/// which [`format_results`] recognizes and does not send.
///
/// ```
/// use pillion_providers::{Provider, parse_tool_calls};
/// use serde_json::json;
/// let response = json!({"choices": [{"message": {"role": "assistant", "tool_calls": [
///     {"id": "call_1", "type": "function", "function": {"name": "ping", "arguments": "{bad"}},
/// ]}}]});
/// let calls = parse_tool_calls(Provider::OpenAiChat, &response)?;
/// assert_eq!(calls[0].arguments, "{bad");
///
/// let error = parse_tool_calls(Provider::OpenAiChat, &json!({"choices": []})).unwrap_err();
/// assert_eq!(error.to_string(), "Malformed response of the provider 'openai': choices[0] is missing");
/// # Ok::<(), pillion_providers::ProviderError>(())
/// ```
///
/// # Errors
/// [`ProviderError`] if the body reports an error, or if the body lacks a required part; the error
/// contains the path of the part.
pub fn parse_tool_calls(
    provider: Provider,
    response: &Value,
) -> Result<Vec<ToolCall>, ProviderError> {
    parse_body(provider, response, |body| {
        provider.api().parse_tool_calls(body)
    })
}

/// Parses the text of the assistant in a complete response body: all text blocks joined, without
/// thoughts. Returns the [`refusal`] if there is no text, and an empty string if there is neither.
///
/// ```
/// use pillion_providers::{Provider, assistant_text};
/// use serde_json::json;
/// let response = json!({"choices": [{"message": {"role": "assistant", "content": "Hello"}}]});
/// assert_eq!(assistant_text(Provider::OpenAiChat, &response)?, "Hello");
/// # Ok::<(), pillion_providers::ProviderError>(())
/// ```
///
/// # Errors
/// The same errors as [`parse_tool_calls`].
pub fn assistant_text(provider: Provider, response: &Value) -> Result<String, ProviderError> {
    parse_body(provider, response, |body| {
        let text = provider.api().text(body)?;
        if text.is_empty() {
            return provider.api().refusal(body);
        }
        Ok(text)
    })
}

/// Parses the refusal of the model, if OpenAI returns it separately from the text and there is no
/// text; otherwise returns an empty string.
///
/// ```
/// use pillion_providers::{Provider, refusal};
/// use serde_json::json;
/// let response = json!({"choices": [{"message":
///     {"role": "assistant", "content": null, "refusal": "I cannot help with that."}}]});
/// assert_eq!(refusal(Provider::OpenAiChat, &response)?, "I cannot help with that.");
/// # Ok::<(), pillion_providers::ProviderError>(())
/// ```
///
/// # Errors
/// The same errors as [`parse_tool_calls`].
pub fn refusal(provider: Provider, response: &Value) -> Result<String, ProviderError> {
    parse_body(provider, response, |body| {
        match provider.api().text(body)?.as_str() {
            "" => provider.api().refusal(body),
            _ => Ok(String::new()),
        }
    })
}

/// Converts a response to the messages that must precede the results of its calls in the
/// conversation: one message, or for `OpenAiResponses` all output items.
///
/// Thoughts, signatures and unknown fields are unchanged, because providers reject a conversation
/// in which they were modified. Parts that providers would reject are corrected: arguments that
/// OpenAI requires as a JSON string become a string, and arguments that the other providers require
/// as an object [become an object](ToolCall::arguments_object), including PHP's encoding of `{}`;
/// blank text of Anthropic is removed; a message of OpenAI's chat completions without calls gets a
/// `content`. Returns nothing for a response without content.
///
/// ```
/// use pillion_providers::{Provider, assistant_messages};
/// use serde_json::json;
/// let response = json!({"candidates": [{"content": {"role": "model", "parts": [
///     {"functionCall": {"name": "ping", "args": {}}, "thoughtSignature": "CiIB"},
/// ]}}]});
/// let messages = assistant_messages(Provider::Google, &response)?;
/// assert_eq!(messages, [response["candidates"][0]["content"].clone()]);
/// # Ok::<(), pillion_providers::ProviderError>(())
/// ```
///
/// # Errors
/// The same errors as [`parse_tool_calls`].
pub fn assistant_messages(
    provider: Provider,
    response: &Value,
) -> Result<Vec<Value>, ProviderError> {
    parse_body(provider, response, |body| {
        provider.api().assistant_messages(body)
    })
}

/// Formats the results of the calls of one response as messages to append to the conversation after
/// [`assistant_messages`], in the order of the results. Returns nothing if there are no results.
///
/// | provider | shape |
/// | --- | --- |
/// | `OpenAiChat` | a message `{role: "tool", tool_call_id, content}` per result |
/// | `OpenAiResponses` | an item `{type: "function_call_output", call_id, output}` per result |
/// | `Anthropic` | one message of role `user` with all the `tool_result` blocks; a failure has `is_error: true` |
/// | `Google` | one message of role `user` with all the `functionResponse` parts; `response` is `{result}`, or `{error}` for a failure |
///
/// The content is that of [`ToolResult::content`]. A successful MCP result with images, audio or
/// files that the provider accepts is a list of text and these items instead: at most 8 items with
/// 5 MB of Base64 each and 12 MB together. Google's items follow the `functionResponse` parts.
/// `OpenAiChat` accepts only text.
///
/// ```
/// use pillion_providers::{Provider, format_results};
/// use pillion_core::tool::ToolResult;
/// use serde_json::json;
/// let results = [ToolResult::success("call_1", "ping", json!("pong"))];
/// assert_eq!(
///     format_results(Provider::OpenAiResponses, &results),
///     [json!({"type": "function_call_output", "call_id": "call_1", "output": "pong"})],
/// );
/// ```
#[must_use]
pub fn format_results(provider: Provider, results: &[ToolResult]) -> Vec<Value> {
    if results.is_empty() {
        return Vec::new();
    }
    provider.api().format_results(results)
}

/// Parses a complete response body and returns the calls of MCP tools that the provider has made
/// itself, or requests approval for. Returns no calls for providers that call no MCP servers.
///
/// ```
/// use pillion_providers::{Provider, native_calls};
/// use serde_json::json;
/// let response = json!({"output": [
///     {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "dmcp", "name": "roll",
///      "arguments": "{\"sides\":6}"},
/// ]});
/// let calls = native_calls(Provider::OpenAiResponses, &response)?;
/// assert_eq!(calls.permission_requests[0].server, "dmcp");
/// assert_eq!(calls.permission_requests[0].call.id, "mcpr_1");
/// # Ok::<(), pillion_providers::ProviderError>(())
/// ```
///
/// # Errors
/// The same errors as [`parse_tool_calls`].
pub fn native_calls(provider: Provider, response: &Value) -> Result<NativeCalls, ProviderError> {
    parse_body(provider, response, |body| provider.api().native_calls(body))
}

/// Formats approval decisions as messages to append to the conversation. A successful result
/// approves the call with its ID; a failed result denies the call, and the model gets the error as
/// the reason. Only `OpenAiResponses` requests approval.
///
/// ```
/// use pillion_providers::{Provider, format_permits};
/// use pillion_core::tool::ToolResult;
/// use serde_json::json;
/// let allowed = ToolResult::success("mcpr_1", "dmcp_roll", json!("may run"));
/// assert_eq!(
///     format_permits(Provider::OpenAiResponses, &[allowed]),
///     [json!({
///         "type": "mcp_approval_response",
///         "approval_request_id": "mcpr_1",
///         "approve": true,
///     })],
/// );
/// ```
#[must_use]
pub fn format_permits(provider: Provider, results: &[ToolResult]) -> Vec<Value> {
    provider.api().format_permits(results)
}

/// Returns the parts of a message of a conversation, in order. Parts that are not in the provider's
/// format are skipped, because a conversation may contain messages that a client has written.
///
/// ```
/// use pillion_providers::{Provider, TranscriptPart, transcript};
/// use serde_json::json;
/// let message = json!({"role": "model", "parts": [{"text": "Hello"}]});
/// assert_eq!(
///     transcript(Provider::Google, &message),
///     [TranscriptPart::Assistant("Hello".to_owned())],
/// );
/// ```
#[must_use]
pub fn transcript(provider: Provider, message: &Value) -> Vec<TranscriptPart> {
    provider.api().transcript(message)
}

/// Parses a response body. Returns an error if the body reports one: all providers report errors in
/// the member `error`, which is otherwise `null` or absent.
fn parse_body<T>(
    provider: Provider,
    response: &Value,
    parse: impl FnOnce(&Node<'_>) -> Result<T, JsonFault>,
) -> Result<T, ProviderError> {
    if let Some(error) = provider.api().error(response) {
        return Err(ProviderError::Reported {
            provider,
            message: find_error_message(error),
        });
    }
    parse(&Node::root(response)).map_err(|fault| ProviderError::malformed(provider, fault))
}

/// Returns the message of an error: a string, or an object with a member `message`.
fn find_error_message(error: &Value) -> String {
    match error.get("message").unwrap_or(error) {
        Value::String(text) => text.clone(),
        error => error.to_string(),
    }
}
