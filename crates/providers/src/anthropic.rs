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
use crate::request::{add_extra, json_headers, put, put_secret, put_tools, without_idle_members};
use crate::turn::token_count;
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
const BETAS: &str = "betas";

/// The beta feature for requests in which Anthropic calls MCP servers natively.
const MCP_BETA: &str = "mcp-client-2025-11-20";

/// Parameters of Anthropic's messages: <https://docs.anthropic.com/en/api/messages>.
const PARAMETERS: [&str; 7] = [
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

    fn path(&self, _model: &str, _stream: bool) -> String {
        "messages".to_owned()
    }

    fn headers(&self, key: Option<&str>) -> Result<HeaderMap, ModelError> {
        let mut headers = json_headers();
        headers.insert(HeaderName::from_static("anthropic-version"), VERSION);
        put_secret(&mut headers, HeaderName::from_static("x-api-key"), key)?;
        Ok(headers)
    }

    /// Returns a header with the beta features in `extra`, and the beta feature of the MCP
    /// connector if the request uses the connector.
    fn turn_headers(&self, turn: &ModelTurn<'_>) -> HeaderMap {
        let extra = &turn.options.extra;
        let named = extra.get(BETAS).and_then(Value::as_array);
        let mut betas: Vec<_> = named
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let names_connector = betas.iter().any(|beta| beta.starts_with("mcp-client-"));
        if extra.contains_key("mcp_servers") && !names_connector {
            betas.push(MCP_BETA);
        }
        let joined = HeaderValue::from_str(&betas.join(",")).ok();
        let value = joined.filter(|value| !value.is_empty());
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
        body.shift_remove(BETAS);
        if !body.contains_key("tools") {
            forbid_tools_of_history(&mut body, &turn.conversation.messages);
        }
        if options.one_call_at_a_time {
            disable_parallel_calls(&mut body);
        }
        without_idle_members(&mut body, &["tool_choice"]);
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
        let budget = thinking.and_then(|thinking| thinking.get("budget_tokens")?.as_u64());
        budget.unwrap_or(0)
    }

    fn forwarded_parameters(&self) -> &'static [&'static str] {
        &PARAMETERS
    }

    /// Reads `{"type": "error", "error": {"type", "message"}}`.
    fn parse_failure<'a>(&self, body: &'a Value) -> ProviderFailure<'a> {
        let error = body.get("error").unwrap_or(&Value::Null);
        let message = error.get("message").and_then(Value::as_str);
        let kind = match error.get("type").and_then(Value::as_str) {
            // "Your credit balance is too low" has the type of an invalid request.
            Some("invalid_request_error")
                if message.is_some_and(|m| m.contains("credit balance")) =>
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
            // A response with this reason but without calls has only calls of tools that Pillion
            // does not run.
            Some(word @ "tool_use") if !has_calls => Finish::Other(word.to_owned()),
            reason => ending::finish(reason, ending_of, has_calls),
        }
    }

    /// Anthropic's `input_tokens` exclude all tokens that were read from or written to the cache.
    fn usage(&self, body: &Value) -> Usage {
        let count = |key: &str| token_count(body, &format!("/usage/{key}"));
        let cached_tokens = count("cache_read_input_tokens");
        Usage {
            input_tokens: count("input_tokens")
                .saturating_add(count("cache_creation_input_tokens"))
                .saturating_add(cached_tokens),
            output_tokens: count("output_tokens"),
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

/// Limits the response to one call in the tool choice. A choice that forbids calls does not accept
/// the member for this limit.
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

/// Adds the tools that the conversation has called and forbids calls, for a request without tools:
/// the API rejects a conversation with calls if the request has no tools.
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
    let tools: Vec<_> = names
        .into_iter()
        .map(|name| json!({"name": name, "input_schema": {"type": "object"}}))
        .collect();
    body.insert("tools".to_owned(), json!(tools));
    body.insert("tool_choice".to_owned(), json!({"type": "none"}));
}

fn ending_of(reason: &str) -> Option<Ending> {
    Some(match reason {
        "end_turn" | "stop_sequence" | "tool_use" => Ending::Complete,
        "max_tokens" | "model_context_window_exceeded" => Ending::Length,
        "refusal" => Ending::Filtered,
        "pause_turn" => Ending::Paused,
        _ => return None,
    })
}
