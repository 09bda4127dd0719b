//! The formats of the model providers: tools on the way out, tool calls on the way in,
//! results on the way back (requirements H1, H5, A6 and A8).
//!
//! Everything here is a pure function from JSON to JSON. One round with a model is
//!
//! 1. [`format_tools`]: what goes into the request's `tools`;
//! 2. [`parse_tool_calls`]: the calls in the response;
//! 3. [`assistant_messages`], then [`format_results`]: what is appended to the conversation
//!    before the next request.
//!
//! ```
//! use pillion_core::provider::{Provider, assistant_messages, format_results, parse_tool_calls};
//! use pillion_core::tool::ToolResult;
//! use serde_json::json;
//!
//! let provider: Provider = "anthropic".parse()?;
//! let response = json!({
//!     "role": "assistant",
//!     "content": [{"type": "tool_use", "id": "toolu_1", "name": "calculator", "input": {"expression": "1+1"}}],
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
mod error;
mod google;
mod name;
mod native_calls;
mod native_mcp;
mod node;
mod openai_chat;
mod openai_responses;
#[cfg(test)]
mod round_trip_tests;

pub use error::ProviderError;
pub use name::{Provider, UnknownProvider};
pub use native_calls::{NativeCall, NativeCalls, format_permits, native_calls};
pub use native_mcp::{NativeApproval, NativeMcpServer};

use serde_json::Value;

use crate::tool::{ToolCall, ToolDefinition, ToolResult};
use node::Node;

/// Runs the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/PROVIDERS.md")]
struct Guide;

/// Whether `strict` is written in the format of [`Provider::OpenAiChat`]. The other formats
/// have no such choice: see [`format_tool`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StrictFlag {
    /// Only when it is true, as the registry's schemas have it.
    #[default]
    WhenTrue,
    /// Always, as HAWKI's `toOpenAiFormat` has it.
    Always,
}

/// Writes the definition of one tool for `provider` (H1).
///
/// | provider | shape |
/// | --- | --- |
/// | `OpenAiChat` | `{type: "function", function: {name, description, parameters, strict?}}` |
/// | `OpenAiResponses` | `{type: "function", name, description, parameters, strict}` |
/// | `Anthropic` | `{name, description, input_schema}` |
/// | `Google` | `{name, description, parameters}`, an entry of `functionDeclarations` |
///
/// `strict` is always there for `OpenAiResponses`, whatever `strict_flag` says: that API
/// takes its absence for `true` and then makes every optional parameter required.
///
/// OpenAI refuses a request over one strict tool whose schema is not of the form that it wants.
/// So the schema of a strict tool is brought into that form: every property is required, one
/// that may be left out may be `null` (the executor takes that for left out), and every object
/// is closed. `strict` is not claimed for a tool whose schema has no such form: free-form maps,
/// tuples, `oneOf`, `allOf`, `minLength` and other keywords that OpenAI does not list.
///
/// For `Google` the schema is rewritten into the part of OpenAPI 3.0 that Gemini's `Schema`
/// has; it refuses the whole request over one keyword that it does not know. The rewritten
/// schema may allow more than the tool does, and the executor still checks the arguments
/// against the tool's own.
///
/// ```
/// use pillion_core::provider::{Provider, StrictFlag, format_tool};
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
    match provider {
        Provider::OpenAiChat => openai_chat::format_tool(tool, strict_flag),
        Provider::OpenAiResponses => openai_responses::format_tool(tool),
        Provider::Anthropic => anthropic::format_tool(tool),
        Provider::Google => google::format_tool(tool),
    }
}

/// Writes the definitions of several tools for `provider`, in their order, with
/// [`StrictFlag::WhenTrue`]. For Google these are the entries of `functionDeclarations`,
/// for the others the request's `tools`.
///
/// ```
/// use pillion_core::provider::{Provider, format_tools};
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
    tools
        .into_iter()
        .map(|tool| format_tool(provider, tool, StrictFlag::WhenTrue))
        .collect()
}

/// Like [`format_tools`] for a provider that is known by its name only; a name that
/// [`Provider`] does not know gives no tools (H1).
///
/// ```
/// use pillion_core::provider::format_tools_by_name;
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

/// Reads the tool calls out of a complete response body (A6), in their order; none is an
/// empty list.
///
/// Of several choices or candidates the first counts. Calls of tools that run at the
/// provider, or of kinds other than function, are left out. Arguments stay as they came: a
/// string is not parsed here, so that bad JSON becomes a failed result in the executor;
/// absent ones become `{}`, and so does the `[]` that PHP makes of `{}`.
///
/// Google may leave out the id of a call. It then gets one that starts with
/// `pillion_call_`, which [`format_results`] knows and does not send.
///
/// ```
/// use pillion_core::provider::{Provider, parse_tool_calls};
/// use serde_json::json;
/// let response = json!({"choices": [{"message": {"role": "assistant", "tool_calls": [
///     {"id": "call_1", "type": "function", "function": {"name": "ping", "arguments": "{bad"}},
/// ]}}]});
/// let calls = parse_tool_calls(Provider::OpenAiChat, &response)?;
/// assert_eq!(calls[0].arguments, "{bad");
///
/// let error = parse_tool_calls(Provider::OpenAiChat, &json!({"choices": []})).unwrap_err();
/// assert_eq!(error.to_string(), "Malformed response of the provider 'openai': choices[0] is missing");
/// # Ok::<(), pillion_core::provider::ProviderError>(())
/// ```
///
/// # Errors
/// [`ProviderError`]: the body reports an error, or lacks something that the format has;
/// the error names the path.
pub fn parse_tool_calls(
    provider: Provider,
    response: &Value,
) -> Result<Vec<ToolCall>, ProviderError> {
    let body = body(provider, response)?;
    match provider {
        Provider::OpenAiChat => openai_chat::parse_tool_calls(&body),
        Provider::OpenAiResponses => openai_responses::parse_tool_calls(&body),
        Provider::Anthropic => anthropic::parse_tool_calls(&body),
        Provider::Google => google::parse_tool_calls(&body),
    }
}

/// The id that [`parse_tool_calls`] gives to a call of Google's that came without one: for those who
/// read an answer while it is streamed. `response_id` is that of the response, `place` says which of
/// its calls it is, from 0.
///
/// ```
/// use pillion_core::provider::{Provider, made_up_call_id, parse_tool_calls};
/// use serde_json::json;
/// let response = json!({"responseId": "r1", "candidates": [{"content": {"parts": [
///     {"functionCall": {"name": "ping"}},
/// ]}}]});
/// let calls = parse_tool_calls(Provider::Google, &response)?;
/// assert_eq!(calls[0].id, made_up_call_id(Some("r1"), 0));
/// # Ok::<(), pillion_core::provider::ProviderError>(())
/// ```
#[must_use]
pub fn made_up_call_id(response_id: Option<&str>, place: usize) -> String {
    google::made_up_id(response_id, place)
}

/// Reads the text that the assistant wrote in a complete response body: all its text blocks
/// one after the other, without thoughts; the [`refusal`] where there is no other; empty when there
/// is neither.
///
/// ```
/// use pillion_core::provider::{Provider, assistant_text};
/// use serde_json::json;
/// let response = json!({"choices": [{"message": {"role": "assistant", "content": "Hello"}}]});
/// assert_eq!(assistant_text(Provider::OpenAiChat, &response)?, "Hello");
/// # Ok::<(), pillion_core::provider::ProviderError>(())
/// ```
///
/// # Errors
/// As [`parse_tool_calls`].
pub fn assistant_text(provider: Provider, response: &Value) -> Result<String, ProviderError> {
    let text = own_text(provider, response)?;
    if text.is_empty() {
        return refusal_beside(provider, response);
    }
    Ok(text)
}

/// Reads the words in which the model declines, where OpenAI has set them apart from its text and
/// there is no other; empty otherwise.
///
/// ```
/// use pillion_core::provider::{Provider, refusal};
/// use serde_json::json;
/// let response = json!({"choices": [{"message":
///     {"role": "assistant", "content": null, "refusal": "I cannot help with that."}}]});
/// assert_eq!(refusal(Provider::OpenAiChat, &response)?, "I cannot help with that.");
/// # Ok::<(), pillion_core::provider::ProviderError>(())
/// ```
///
/// # Errors
/// As [`parse_tool_calls`].
pub fn refusal(provider: Provider, response: &Value) -> Result<String, ProviderError> {
    match own_text(provider, response)?.as_str() {
        "" => refusal_beside(provider, response),
        _ => Ok(String::new()),
    }
}

fn own_text(provider: Provider, response: &Value) -> Result<String, ProviderError> {
    let body = body(provider, response)?;
    match provider {
        Provider::OpenAiChat => openai_chat::assistant_text(&body),
        Provider::OpenAiResponses => openai_responses::assistant_text(&body),
        Provider::Anthropic => anthropic::assistant_text(&body),
        Provider::Google => google::assistant_text(&body),
    }
}

fn refusal_beside(provider: Provider, response: &Value) -> Result<String, ProviderError> {
    let body = body(provider, response)?;
    match provider {
        Provider::OpenAiChat => openai_chat::refusal(&body),
        Provider::OpenAiResponses => openai_responses::refusal(&body),
        Provider::Anthropic | Provider::Google => Ok(String::new()),
    }
}

/// Makes of a response what has to stand in the conversation before the results of its
/// calls (H5): one message, or for `OpenAiResponses` all the output items.
///
/// Thoughts, signatures and unknown fields stay as they came, for the providers refuse a
/// conversation in which they were changed. Put right is what they do not take back: arguments that
/// OpenAI wants as a string of JSON are one (A6), and those that the others want as an object
/// [are one](ToolCall::arguments_object), also `{}` that went through PHP; text of Anthropic's without a
/// word is left out; a message of OpenAI's chat completions without calls has a `content`. A response
/// without any content gives nothing.
///
/// ```
/// use pillion_core::provider::{Provider, assistant_messages};
/// use serde_json::json;
/// let response = json!({"candidates": [{"content": {"role": "model", "parts": [
///     {"functionCall": {"name": "ping", "args": {}}, "thoughtSignature": "CiIB"},
/// ]}}]});
/// let messages = assistant_messages(Provider::Google, &response)?;
/// assert_eq!(messages, [response["candidates"][0]["content"].clone()]);
/// # Ok::<(), pillion_core::provider::ProviderError>(())
/// ```
///
/// # Errors
/// As [`parse_tool_calls`].
pub fn assistant_messages(
    provider: Provider,
    response: &Value,
) -> Result<Vec<Value>, ProviderError> {
    let body = body(provider, response)?;
    match provider {
        Provider::OpenAiChat => openai_chat::assistant_messages(&body),
        Provider::OpenAiResponses => openai_responses::assistant_messages(&body),
        Provider::Anthropic => anthropic::assistant_messages(&body),
        Provider::Google => google::assistant_messages(&body),
    }
}

/// Writes the results of the calls of one response as what is appended to the conversation
/// after [`assistant_messages`], in the order of the results. No results give nothing.
///
/// | provider | shape |
/// | --- | --- |
/// | `OpenAiChat` | a message `{role: "tool", tool_call_id, content}` per result |
/// | `OpenAiResponses` | an item `{type: "function_call_output", call_id, output}` per result |
/// | `Anthropic` | one message of role `user` with all the `tool_result` blocks; a failure has `is_error: true` |
/// | `Google` | one message of role `user` with all the `functionResponse` parts; `response` is `{result}`, or `{error}` for a failure |
///
/// The text is that of [`ToolResult::content`].
///
/// ```
/// use pillion_core::provider::{Provider, format_results};
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
    match provider {
        Provider::OpenAiChat => results.iter().map(ToolResult::to_message_format).collect(),
        Provider::OpenAiResponses => openai_responses::format_results(results),
        Provider::Anthropic => vec![anthropic::format_results(results)],
        Provider::Google => vec![google::format_results(results)],
    }
}

/// The body to read from, unless it is an error that the provider reports; all four put
/// that under `error`, which is `null` or absent otherwise.
fn body(provider: Provider, response: &Value) -> Result<Node<'_>, ProviderError> {
    let body = Node::root(provider, response);
    match response.get("error") {
        None | Some(Value::Null) => Ok(body),
        Some(error) => Err(ProviderError::Reported {
            provider,
            message: match error.get("message").unwrap_or(error) {
                Value::String(message) => message.clone(),
                other => other.to_string(),
            },
        }),
    }
}
