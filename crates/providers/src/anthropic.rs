//! Anthropic's Messages API, as documented under `docs.anthropic.com/en/api/messages`.

mod conversation;
mod format;
mod native;
mod stream;
#[cfg(test)]
mod tests;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use crate::ending::{self, Ending};
use crate::failure::{ProviderFailure, kind_for_status};
use crate::request::{
    add_extra, create_json_headers, put, put_secret, put_tools, remove_tool_members,
};
use crate::turn::read_token_count;
use crate::{
    Endpoint, Finish, ModelError, ModelErrorKind, ModelTurn, ProviderApi, ProviderConversation,
    ToolChoice, TurnOptions, TurnStream, Usage,
};

/// The API version in the `anthropic-version` header.
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// The default `max_tokens`, which the API requires. Every model since Claude 3.5 supports this
/// length.
const DEFAULT_MAX_TOKENS: u64 = 8192;

/// The member of `extra` with the names of beta features, as in Anthropic's SDKs. The names are
/// sent in a header.
const BETAS_MEMBER: &str = "betas";

/// The beta feature for requests in which Anthropic calls MCP servers itself.
const MCP_CONNECTOR_BETA: &str = "mcp-client-2025-11-20";

/// Parameters of Anthropic's Messages API that Pillion forwards:
/// <https://docs.anthropic.com/en/api/messages>.
const FORWARDED_PARAMETERS: [&str; 7] = [
    "cache_control",
    "inference_geo",
    "output_config",
    "output_format",
    "service_tier",
    "thinking",
    "top_k",
];

/// Anthropic's Messages API.
pub(crate) struct Anthropic;

impl ProviderApi for Anthropic {
    fn base_url(&self) -> &'static str {
        "https://api.anthropic.com/v1"
    }

    fn conversation(&self, messages: &[Value]) -> Result<ProviderConversation, ModelError> {
        conversation::convert(messages)
    }

    fn path(&self, _model: &str, _is_streamed: bool) -> String {
        "messages".to_owned()
    }

    fn headers(&self, key: Option<&str>) -> Result<HeaderMap, ModelError> {
        let mut headers = create_json_headers();
        headers.insert(HeaderName::from_static("anthropic-version"), VERSION);
        put_secret(&mut headers, HeaderName::from_static("x-api-key"), key)?;
        Ok(headers)
    }

    /// Returns the header `anthropic-beta` with the beta features of the request: those in `extra`,
    /// and the feature of the MCP connector if the request uses the connector. Returns no header if
    /// there are no beta features.
    fn turn_headers(&self, turn: &ModelTurn<'_>) -> HeaderMap {
        let extra = &turn.options.extra;
        let list = extra.get(BETAS_MEMBER).and_then(Value::as_array);
        let mut betas = Vec::from_iter(list.into_iter().flatten().filter_map(Value::as_str));
        let has_connector_beta = betas.iter().any(|beta| beta.starts_with("mcp-client-"));
        if extra.contains_key("mcp_servers") && !has_connector_beta {
            betas.push(MCP_CONNECTOR_BETA);
        }
        let joined_betas = HeaderValue::from_str(&betas.join(",")).ok();
        let value = joined_betas.filter(|value| !value.is_empty());
        HeaderMap::from_iter(value.map(|value| (HeaderName::from_static("anthropic-beta"), value)))
    }

    /// Thinking counts toward `max_tokens`, so a thinking budget raises the default limit if the
    /// options set no limit.
    fn body(&self, endpoint: &Endpoint<'_>, turn: &ModelTurn<'_>) -> Value {
        let options = turn.options;
        let default_tokens = self
            .thinking_tokens(options)
            .saturating_add(DEFAULT_MAX_TOKENS);
        let max_tokens = options.max_output_tokens.unwrap_or(default_tokens);
        let mut body = Map::new();
        body.insert("model".to_owned(), json!(endpoint.model));
        body.insert("max_tokens".to_owned(), json!(max_tokens));
        put(&mut body, "system", turn.conversation.system.clone());
        body.insert("messages".to_owned(), json!(turn.conversation.messages));
        put_tools(&mut body, turn, self);
        put(&mut body, "temperature", options.temperature);
        put(&mut body, "top_p", options.top_p);
        if !options.stop.is_empty() {
            body.insert("stop_sequences".to_owned(), json!(options.stop));
        }
        add_extra(&mut body, &options.extra);
        body.shift_remove(BETAS_MEMBER);
        if !body.contains_key("tools") {
            forbid_tools_of_history(&mut body, &turn.conversation.messages);
        }
        if options.one_call_at_a_time {
            disable_parallel_calls(&mut body);
        }
        remove_tool_members(&mut body, &["tool_choice"]);
        body.insert("stream".to_owned(), json!(turn.stream));
        Value::Object(body)
    }

    fn tool_choice(&self, choice: &ToolChoice) -> Value {
        match choice {
            ToolChoice::Auto => json!({"type": "auto"}),
            ToolChoice::None => json!({"type": "none"}),
            ToolChoice::Required => json!({"type": "any"}),
            ToolChoice::Tool(name) => json!({"type": "tool", "name": name}),
        }
    }

    fn thinking_tokens(&self, options: &TurnOptions) -> u64 {
        let thinking = options.extra.get("thinking");
        let thinking_budget = thinking.and_then(|thinking| thinking.get("budget_tokens")?.as_u64());
        thinking_budget.unwrap_or(0)
    }

    fn forwarded_parameters(&self) -> &'static [&'static str] {
        &FORWARDED_PARAMETERS
    }

    /// Reads an error body of the form `{"type": "error", "error": {"type", "message"}}`.
    fn parse_failure<'a>(&self, body: &'a Value) -> ProviderFailure<'a> {
        let error = body.get("error").unwrap_or(&Value::Null);
        let message = error.get("message").and_then(Value::as_str);
        let kind = match error.get("type").and_then(Value::as_str) {
            // Anthropic reports an exhausted credit balance as an invalid request.
            Some("invalid_request_error")
                if message.is_some_and(|text| text.contains("credit balance")) =>
            {
                Some(ModelErrorKind::Exhausted)
            }
            Some("invalid_request_error") => Some(kind_for_status(400)),
            Some("authentication_error") => Some(kind_for_status(401)),
            Some("billing_error") => Some(kind_for_status(402)),
            Some("permission_error") => Some(kind_for_status(403)),
            Some("not_found_error") => Some(kind_for_status(404)),
            Some("request_too_large") => Some(kind_for_status(413)),
            Some("rate_limit_error") => Some(kind_for_status(429)),
            Some("api_error") => Some(kind_for_status(500)),
            Some("timeout_error") => Some(kind_for_status(504)),
            Some("overloaded_error") => Some(kind_for_status(529)),
            _ => None,
        };
        ProviderFailure {
            kind,
            message,
            ..ProviderFailure::default()
        }
    }

    fn parts_pointer(&self) -> &'static str {
        "/content"
    }

    fn finish(&self, body: &Value, has_calls: bool) -> Finish {
        match ending::reason(body.get("stop_reason")) {
            // A response with the stop reason `tool_use`, but without calls for Pillion, contains
            // only calls of tools that Pillion does not run.
            Some(reason_text @ "tool_use") if !has_calls => Finish::Other(reason_text.to_owned()),
            reason => ending::finish(reason, parse_ending, has_calls),
        }
    }

    /// Counts the tokens that were read from or written to the cache as input tokens, because
    /// Anthropic's `input_tokens` exclude these tokens.
    fn usage(&self, body: &Value) -> Usage {
        let read_count = |key: &str| read_token_count(body, &format!("/usage/{key}"));
        let cached_tokens = read_count("cache_read_input_tokens");
        Usage {
            input_tokens: read_count("input_tokens")
                .saturating_add(read_count("cache_creation_input_tokens"))
                .saturating_add(cached_tokens),
            output_tokens: read_count("output_tokens"),
            cached_tokens,
        }
    }

    fn stop_sequence(&self, body: &Value) -> Option<String> {
        body["stop_sequence"].as_str().map(str::to_owned)
    }

    fn stream(&self) -> Box<dyn TurnStream> {
        Box::<stream::MessageStream>::default()
    }
}

/// Limits the response to one call, by a member of the tool choice. Does not add the member to a
/// tool choice that forbids calls, because the API would reject the request.
fn disable_parallel_calls(body: &mut Map<String, Value>) {
    let choice = body
        .entry("tool_choice")
        .or_insert_with(|| Anthropic.tool_choice(&ToolChoice::Auto));
    if let Value::Object(choice) = choice
        && choice.get("type").is_some_and(|kind| kind != "none")
    {
        choice.insert("disable_parallel_tool_use".to_owned(), json!(true));
    }
}

/// For a request without tools, adds the tools that the conversation has called, and sets a tool
/// choice that forbids calls. The API rejects a request without tools if the conversation contains
/// calls.
fn forbid_tools_of_history(body: &mut Map<String, Value>, messages: &[Value]) {
    let mut names = Vec::new();
    for message in messages {
        let blocks = message.get("content").and_then(Value::as_array);
        for block in blocks.into_iter().flatten() {
            if block.get("type").and_then(Value::as_str) == Some("tool_use")
                && let Some(name) = block.get("name").and_then(Value::as_str)
                && !names.contains(&name)
            {
                names.push(name);
            }
        }
    }
    if names.is_empty() {
        return;
    }
    let to_tool = |name: &&str| json!({"name": name, "input_schema": {"type": "object"}});
    body.insert("tools".to_owned(), names.iter().map(to_tool).collect());
    body.insert("tool_choice".to_owned(), json!({"type": "none"}));
}

fn parse_ending(reason: &str) -> Option<Ending> {
    Some(match reason {
        "end_turn" | "stop_sequence" | "tool_use" => Ending::Complete,
        "max_tokens" | "model_context_window_exceeded" => Ending::Length,
        "refusal" => Ending::Filtered,
        "pause_turn" => Ending::Paused,
        _ => return None,
    })
}
