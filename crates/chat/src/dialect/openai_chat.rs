//! OpenAI's Chat Completions API, and the many compatible servers.

mod stream;
#[cfg(test)]
mod tests;

use http::HeaderMap;
use pillion_core::provider::{Provider, format_tools, has_error, is_blank_error, refusal};
use serde_json::{Map, Value, json};
use url::Url;

use super::ending::{self, Ending};
use super::failure::{ProviderFailure, malformed};
use super::request::{add_extra, json_headers, openai_tool_choice, put_bearer};
use super::{AnswerStream, ProviderDialect};
use crate::{
    Finish, ModelError, ModelErrorKind, ModelTurn, ProviderConversation, ToolChoice, TurnAnswer,
    Usage,
};

/// The host of OpenAI, and the host suffixes of OpenAI's regions and Azure.
const OPENAI_HOSTS: [&str; 5] = [
    "api.openai.com",
    ".api.openai.com",
    ".openai.azure.com",
    ".services.ai.azure.com",
    ".cognitiveservices.azure.com",
];

/// The members that OpenAI rejects in a request without tools.
const TOOL_MEMBERS: [&str; 2] = ["tool_choice", "parallel_tool_calls"];

/// <https://platform.openai.com/docs/api-reference/chat>
pub(super) struct OpenAiChat {
    /// The member for the maximum length of an answer.
    longest_answer: &'static str,
}

impl OpenAiChat {
    /// OpenAI's newer models reject `max_tokens`, and many compatible servers only know
    /// `max_tokens`.
    pub(super) fn at(base_url: &Url) -> Self {
        let host = base_url.host_str().unwrap_or_default();
        let is_own = OPENAI_HOSTS.iter().any(|own| match own.strip_prefix('.') {
            Some(_) => host.ends_with(own),
            None => host == *own,
        });
        Self {
            longest_answer: if is_own {
                "max_completion_tokens"
            } else {
                "max_tokens"
            },
        }
    }
}

impl ProviderDialect for OpenAiChat {
    fn provider(&self) -> Provider {
        Provider::OpenAiChat
    }

    /// The messages stay unchanged.
    fn conversation(&self, messages: &[Value]) -> Result<ProviderConversation, ModelError> {
        for (index, message) in messages.iter().enumerate() {
            if !message["role"].is_string() {
                return Err(ModelError::new(
                    ModelErrorKind::Refused,
                    format!("messages[{index}] must be an object with a role"),
                ));
            }
        }
        Ok(ProviderConversation {
            system: None,
            messages: messages.to_vec(),
        })
    }

    fn path(&self, _model: &str, _stream: bool) -> String {
        "chat/completions".to_owned()
    }

    fn headers(&self, key: Option<&str>) -> Result<HeaderMap, ModelError> {
        let mut headers = json_headers();
        if let Some(key) = key {
            put_bearer(&mut headers, key)?;
        }
        Ok(headers)
    }

    fn body(&self, model: &str, turn: &ModelTurn<'_>) -> Value {
        let options = turn.options;
        let mut body = Map::new();
        let mut put = |key: &str, value: Value| {
            body.insert(key.to_owned(), value);
        };
        put("model", json!(model));
        put("messages", json!(turn.conversation.messages));
        if !turn.tools.is_empty() {
            let tools = turn.tools.iter().map(AsRef::as_ref);
            put("tools", json!(format_tools(Provider::OpenAiChat, tools)));
        }
        if let Some(choice) = &options.tool_choice {
            put("tool_choice", tool_choice(choice));
        }
        if options.one_call_at_a_time {
            put("parallel_tool_calls", json!(false));
        }
        if let Some(temperature) = options.temperature {
            put("temperature", json!(temperature));
        }
        if let Some(top_p) = options.top_p {
            put("top_p", json!(top_p));
        }
        if let Some(tokens) = options.max_output_tokens {
            put(self.longest_answer, json!(tokens));
        }
        if !options.stop.is_empty() {
            put("stop", json!(options.stop));
        }
        if turn.stream {
            put("stream_options", json!({"include_usage": true}));
        }
        add_extra(&mut body, &options.extra);
        body.insert("stream".to_owned(), json!(turn.stream));
        if !body.contains_key("tools") {
            for key in TOOL_MEMBERS {
                body.remove(key);
            }
        }
        Value::Object(body)
    }

    fn answer(&self, body: Value) -> Result<TurnAnswer, ModelError> {
        read_answer(body)
    }

    fn stream(&self) -> Box<dyn AnswerStream> {
        Box::<stream::ChunkStream>::default()
    }

    fn parse_failure<'a>(&self, body: &'a Value) -> ProviderFailure<'a> {
        parse_failure(body)
    }
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
        choice => json!(openai_tool_choice(choice)),
    }
}

/// Reads a complete answer. Calls without an id get a generated one.
fn read_answer(mut body: Value) -> Result<TurnAnswer, ModelError> {
    if is_error(&body) {
        return Err(parse_failure(&body).into_error(Provider::OpenAiChat));
    }
    let usage = usage(&body);
    let turn = body["id"].as_str().map(str::to_owned);
    let calls_of_others = calls_of_other_choices(&mut body);
    let choice = body
        .pointer_mut("/choices/0")
        .and_then(Value::as_object_mut);
    let Some(choice) = choice else {
        return Err(failure_without_choices(&body));
    };
    check_choice(choice)?;
    let message = choice.get_mut("message").and_then(Value::as_object_mut);
    let Some(message) = message else {
        return Err(malformed_error("choices[0].message is missing"));
    };
    if let Some(calls) = calls_of_others {
        message.insert("tool_calls".to_owned(), calls);
    }
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    let calls = calls.map(Vec::as_mut_slice).unwrap_or_default();
    for (index, call) in calls.iter_mut().enumerate() {
        name_call(call, turn.as_deref(), index);
    }
    let mut finish = finish(choice.get("finish_reason"), !calls_of(choice).is_empty());
    if finish == Finish::Stop
        && refusal(Provider::OpenAiChat, &body).is_ok_and(|words| !words.is_empty())
    {
        finish = Finish::Filtered;
    }
    Ok(TurnAnswer {
        body,
        finish,
        usage,
    })
}

/// Takes the calls of another choice if the first has none. Gateways to Anthropic make a choice of
/// each block, so that the text is in the first choice and the calls are in another.
fn calls_of_other_choices(body: &mut Value) -> Option<Value> {
    let choices = body.get_mut("choices")?.as_array_mut()?;
    let (first, others) = choices.split_first_mut()?;
    if !calls_of(first.as_object()?).is_empty() {
        return None;
    }
    let calls = others.iter_mut().filter_map(|choice| {
        let calls = choice.get_mut("message")?.get_mut("tool_calls")?;
        let has_calls = calls.as_array().is_some_and(|calls| !calls.is_empty());
        has_calls.then(|| calls.take())
    });
    calls.into_iter().next()
}

/// Returns the error that a choice reports: the answer broke off.
fn check_choice(choice: &mut Map<String, Value>) -> Result<(), ModelError> {
    let error = choice.remove("error");
    match error.filter(|error| !is_blank_error(error)) {
        Some(error) => {
            Err(parse_failure(&json!({"error": error})).into_error(Provider::OpenAiChat))
        }
        None => Ok(()),
    }
}

/// Returns the error of an answer without choices, which may be an error in a form of its own.
fn failure_without_choices(body: &Value) -> ModelError {
    let failure = parse_failure(body);
    match failure.message {
        Some(_) => failure.into_error(Provider::OpenAiChat),
        None => malformed_error("choices[0] is missing"),
    }
}

/// Generates an id for a call without one.
fn name_call(call: &mut Value, turn: Option<&str>, index: usize) {
    let has_id = call["id"].as_str().is_some_and(|id| !id.is_empty());
    if let (false, Some(call)) = (has_id, call.as_object_mut()) {
        let id = json!(generate_call_id(turn, index));
        call.insert("id".to_owned(), id);
    }
}

/// Generates a call id. The answer's id is part of it, so that the ids of two answers differ.
fn generate_call_id(turn: Option<&str>, index: usize) -> String {
    let turn = turn.unwrap_or_default().bytes();
    let turn: String = turn
        .filter(u8::is_ascii_alphanumeric)
        .take(32)
        .map(char::from)
        .collect();
    format!("call_{turn}_{index}")
}

fn calls_of(choice: &Map<String, Value>) -> &[Value] {
    let calls = choice
        .get("message")
        .and_then(|message| message["tool_calls"].as_array());
    calls.map(Vec::as_slice).unwrap_or_default()
}

/// Some compatible servers send `stop`, or no reason, for an answer with calls.
fn finish(member: Option<&Value>, has_calls: bool) -> Finish {
    match ending::reason(member) {
        Some("tool_calls" | "function_call") => Finish::ToolCalls,
        reason => ending::finish(reason, ending_of, has_calls),
    }
}

/// The reasons of OpenAI and of compatible servers. Gateways forward the reasons of other
/// providers.
fn ending_of(reason: &str) -> Option<Ending> {
    Some(match reason.to_ascii_lowercase().as_str() {
        "stop" | "tool_calls" | "function_call" => Ending::Complete,
        // Text Generation Inference, and gateways to Anthropic.
        "eos_token" | "stop_sequence" | "end_turn" | "tool_use" => Ending::Complete,
        // `model_length` is Mistral's value; gateways to Anthropic and Google send `max_tokens`.
        "length" | "model_length" | "max_tokens" => Ending::Length,
        "content_filter" | "safety" | "refusal" => Ending::Filtered,
        // DeepSeek, vLLM and OpenRouter.
        "insufficient_system_resource" | "abort" | "error" => Ending::Failed,
        _ => return None,
    })
}

/// xAI and gateways to Gemini count reasoning tokens only in the total. Moonshot sends the usage in
/// the choice.
fn usage(body: &Value) -> Usage {
    let usage = match &body["usage"] {
        Value::Null => &body["choices"][0]["usage"],
        usage => usage,
    };
    let tokens = |value: &Value| value.as_u64().unwrap_or(0);
    let input_tokens = tokens(&usage["prompt_tokens"]);
    let beside = tokens(&usage["total_tokens"]).saturating_sub(input_tokens);
    Usage {
        input_tokens,
        output_tokens: tokens(&usage["completion_tokens"]).max(beside),
        cached_tokens: tokens(&usage["prompt_tokens_details"]["cached_tokens"]),
    }
}

/// Returns whether a body or a stream chunk is an error. Google's compatible endpoint sends errors in
/// a list.
fn is_error(body: &Value) -> bool {
    let body = body.get(0).unwrap_or(body);
    has_error(Provider::OpenAiChat, body) || body["object"] == "error"
}

/// Reads an error. Most servers send `{"error": {"message", "type", "code"}}`; some leave out the
/// outer object, or send only a text.
fn parse_failure(body: &Value) -> ProviderFailure<'_> {
    /// The places of the message in errors of compatible servers.
    const MESSAGES: [&str; 7] = [
        "/detail",
        "/error_message",
        "/msg",
        "/base_resp/status_msg",
        "/errors/0/message",
        "/errors/0",
        "/errors/message",
    ];
    let body = body.get(0).unwrap_or(body);
    let error = body.get("error").unwrap_or(body);
    let texts = [&error["code"], &error["type"]];
    let kinds = texts.into_iter().filter_map(Value::as_str);
    let status = error["code"].as_u64().or_else(|| error["status"].as_u64());
    ProviderFailure {
        status: None,
        retry_after: None,
        kind: kinds.filter_map(kind).next().or_else(|| {
            status
                .and_then(|status| u16::try_from(status).ok())
                .and_then(of_code)
        }),
        message: match error {
            Value::String(message) => Some(message),
            error => error["message"].as_str().or_else(|| {
                let texts = MESSAGES.iter().filter_map(|place| body.pointer(place));
                texts.filter_map(Value::as_str).next()
            }),
        },
    }
}

fn of_code(code: u16) -> Option<ModelErrorKind> {
    (400..600)
        .contains(&code)
        .then(|| super::failure::of_status(code))
}

/// Returns the kind of failure for OpenAI's error codes and types; for other values, the HTTP
/// status decides.
fn kind(word: &str) -> Option<ModelErrorKind> {
    Some(match word {
        "context_length_exceeded" | "string_above_max_length" => ModelErrorKind::ContextTooLong,
        "insufficient_quota" | "billing_hard_limit_reached" | "billing_not_active" => {
            ModelErrorKind::Exhausted
        }
        "invalid_api_key" | "authentication_error" | "permission_error" => {
            ModelErrorKind::Unauthorized
        }
        "rate_limit_exceeded" | "rate_limit_error" | "requests" | "tokens" => {
            ModelErrorKind::RateLimited
        }
        "server_error" | "overloaded_error" | "service_unavailable" => ModelErrorKind::Unavailable,
        _ => return None,
    })
}

fn malformed_error(what: &str) -> ModelError {
    malformed(Provider::OpenAiChat, what)
}
