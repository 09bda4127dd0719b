//! OpenAI's Responses API, as documented under `platform.openai.com/docs/api-reference/responses`.
//!
//! Requests set `store: false`, so that OpenAI stores nothing. Each request therefore contains the
//! whole conversation, including the encrypted reasoning of reasoning models.

mod conversation;
mod format;
mod native;
mod stream;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use crate::api::read_turn;
use crate::ending::{self, Ending};
use crate::failure::{ProviderFailure, kind_for_status};
use crate::openai::{self, TOOL_MEMBERS};
use crate::request::{add_extra, parse_leading_number, put, put_tools, remove_tool_members};
use crate::turn::read_token_count;
use crate::{
    Endpoint, Finish, ModelError, ModelErrorKind, ModelTurn, ProviderApi, ProviderConversation,
    ToolChoice, ToolFormat, TurnResponse, TurnStream, Usage, assistant_text,
};

/// OpenAI's Responses API.
pub(crate) struct OpenAiResponses;

impl ProviderApi for OpenAiResponses {
    fn base_url(&self) -> &'static str {
        openai::BASE_URL
    }

    fn conversation(&self, messages: &[Value]) -> Result<ProviderConversation, ModelError> {
        conversation::convert(messages)
    }

    fn path(&self, _model: &str, _is_streamed: bool) -> String {
        "responses".to_owned()
    }

    /// Omits `stop`, because the API has no such member.
    fn body(&self, endpoint: &Endpoint<'_>, turn: &ModelTurn<'_>) -> Value {
        let options = turn.options;
        let mut body = Map::new();
        body.insert("model".to_owned(), json!(endpoint.model));
        put(&mut body, "instructions", turn.conversation.system.clone());
        body.insert("input".to_owned(), json!(turn.conversation.messages));
        put_tools(&mut body, turn, self);
        let parallel_tool_calls = options.one_call_at_a_time.then_some(false);
        put(&mut body, "parallel_tool_calls", parallel_tool_calls);
        put(&mut body, "temperature", options.temperature);
        put(&mut body, "top_p", options.top_p);
        put(&mut body, "max_output_tokens", options.max_output_tokens);
        body.insert("store".to_owned(), json!(false));
        let configured_reasoning = endpoint.reasoning;
        if configured_reasoning.unwrap_or_else(|| is_reasoning_model(endpoint.model)) {
            body.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
        }
        add_extra(&mut body, &options.extra);
        remove_tool_members(&mut body, &TOOL_MEMBERS);
        body.insert("stream".to_owned(), json!(turn.stream));
        Value::Object(body)
    }

    fn tool_choice(&self, choice: &ToolChoice) -> Value {
        openai::tool_choice(choice, |name| json!({"type": "function", "name": name}))
    }

    /// The API rejects a `max_output_tokens` below this minimum.
    fn min_output_tokens(&self) -> u64 {
        16
    }

    /// Reads an error body `{"error": {"message", "type", "param", "code"}}`.
    fn parse_failure<'a>(&self, body: &'a Value) -> ProviderFailure<'a> {
        parse_error_object(&body["error"])
    }

    fn parts_pointer(&self) -> &'static str {
        "/output"
    }

    fn finish(&self, body: &Value, has_calls: bool) -> Finish {
        let read_reason = |pointer: &str| ending::reason(body.pointer(pointer));
        match read_reason("/status") {
            Some("completed") | None => derive_finish(&body["output"], has_calls),
            status => {
                let detail = read_reason("/incomplete_details/reason");
                let reason = detail.filter(|_| status == Some("incomplete"));
                ending::finish(reason.or(status), parse_ending, has_calls)
            }
        }
    }

    /// Cached tokens are a part of the API's input tokens, and reasoning tokens a part of its
    /// output tokens.
    fn usage(&self, body: &Value) -> Usage {
        Usage {
            input_tokens: read_token_count(body, "/usage/input_tokens"),
            output_tokens: read_token_count(body, "/usage/output_tokens"),
            cached_tokens: read_token_count(body, "/usage/input_tokens_details/cached_tokens"),
        }
    }

    fn parse_response(&self, body: Value) -> Result<TurnResponse, ModelError> {
        let response = read_turn(self, body)?;
        assistant_text(self.provider(), &response.body)?;
        let status = ending::reason(response.body.get("status"));
        if let Some(status @ ("in_progress" | "queued")) = status {
            let problem = format!("the response is not complete: its status is '{status}'");
            return Err(self.malformed(&problem));
        }
        Ok(response)
    }

    fn stream(&self) -> Box<dyn TurnStream> {
        Box::<stream::ResponseStream>::default()
    }
}

/// Reads the content of `error`, or an event of type `error`.
fn parse_error_object(error: &Value) -> ProviderFailure<'_> {
    let message = match error {
        Value::String(message) => Some(message.as_str()),
        _ => error["message"].as_str(),
    };
    let kind_for_code = |code: &str| match code {
        "context_length_exceeded" => Some(ModelErrorKind::ContextTooLong),
        "invalid_api_key" | "authentication_error" => Some(kind_for_status(401)),
        "insufficient_quota" => Some(ModelErrorKind::Exhausted),
        "rate_limit_exceeded" | "rate_limit_error" => Some(kind_for_status(429)),
        "server_error"
        | "internal_error"
        | "server_is_overloaded"
        | "slow_down"
        | "vector_store_timeout" => Some(kind_for_status(503)),
        "invalid_request_error" | "invalid_prompt" => Some(kind_for_status(400)),
        code if code.contains("image") => Some(kind_for_status(400)),
        _ => None,
    };
    let read_kind = |key: &str| error[key].as_str().and_then(kind_for_code);
    ProviderFailure {
        // Prefers the error's code, which is more specific than its type.
        kind: read_kind("code").or_else(|| read_kind("type")),
        message,
        ..ProviderFailure::default()
    }
}

/// Returns whether a model of OpenAI is a reasoning model: the `o` series and GPT-5 and later,
/// except the `chat` models. Other models reject a request for encrypted reasoning.
fn is_reasoning_model(model: &str) -> bool {
    let model_name = model.rsplit('/').next().unwrap_or_default();
    let name = model_name.strip_prefix("ft:").unwrap_or(model_name);
    let number_after = |prefix: &str| name.strip_prefix(prefix).and_then(parse_leading_number);
    let is_o_series = number_after("o").is_some();
    let is_gpt_5_or_later = number_after("gpt-").is_some_and(|generation| generation >= 5);
    (is_o_series || is_gpt_5_or_later || name.starts_with("codex-")) && !name.contains("-chat")
}

/// Returns the meaning of the reason why a response is incomplete, such as `max_output_tokens`.
fn parse_ending(reason: &str) -> Option<Ending> {
    Some(match reason {
        "max_output_tokens" => Ending::Length,
        "content_filter" => Ending::Filtered,
        "incomplete" | "failed" | "cancelled" => Ending::Failed,
        _ => return None,
    })
}

/// Derives the finish reason from the items, because a complete response has no explicit finish
/// reason.
fn derive_finish(output: &Value, has_calls: bool) -> Finish {
    let items = output.as_array().map(Vec::as_slice).unwrap_or_default();
    let has_item = |kind: &str| items.iter().any(|item| item["type"] == kind);
    let is_cut_off =
        |item: &&Value| item["type"] == "function_call" && item["status"] == "incomplete";
    if items.iter().any(|item| is_cut_off(&item)) {
        return Finish::Length;
    }
    let has_part = |kind: &str| {
        let parts = items.iter().filter_map(|item| item["content"].as_array());
        parts.flatten().any(|part| part["type"] == kind)
    };
    if has_calls {
        Finish::ToolCalls
    } else if has_item("mcp_approval_request") {
        // OpenAI waits for permission to call a tool of an MCP server.
        Finish::Other("mcp_approval_request".to_owned())
    } else if has_part("refusal") && !has_part("output_text") {
        Finish::Filtered
    } else {
        Finish::Stop
    }
}
