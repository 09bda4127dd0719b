//! OpenAI's Chat Completions API, and the many compatible servers.

mod format;
mod stream;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};
use url::Url;

use crate::ending::{self, Ending};
use crate::failure::{ProviderFailure, kind_for_status};
use crate::openai::{self, TOOL_MEMBERS};
use crate::request::{add_extra, put, put_tools, remove_tool_members};
use crate::turn::read_token_count;
use crate::{
    Endpoint, Finish, ModelError, ModelErrorKind, ModelTurn, ProviderApi, ProviderConversation,
    ToolChoice, ToolFormat, TurnResponse, TurnStream, Usage, message, refusal,
};
use format::is_blank_error;

/// The host of OpenAI, and the host suffixes of OpenAI's regions and Azure.
const OPENAI_HOSTS: [&str; 5] = [
    "api.openai.com",
    ".api.openai.com",
    ".openai.azure.com",
    ".services.ai.azure.com",
    ".cognitiveservices.azure.com",
];

/// Parameters that Pillion forwards: the parameters of OpenAI's Chat Completions API for sampling,
/// output and service tier, and parameters that compatible servers have in common:
/// <https://platform.openai.com/docs/api-reference/chat/create>,
/// <https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html>.
const FORWARDED_PARAMETERS: [&str; 28] = [
    "audio",
    "enable_thinking",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "metadata",
    "min_p",
    "min_tokens",
    "modalities",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "reasoning_effort",
    "reasoning_format",
    "repetition_penalty",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "store",
    "thinking",
    "top_a",
    "top_k",
    "top_logprobs",
    "typical_p",
    "verbosity",
];

/// OpenAI's Chat Completions API: <https://platform.openai.com/docs/api-reference/chat>
pub(crate) struct OpenAiChat;

impl ProviderApi for OpenAiChat {
    fn base_url(&self) -> &'static str {
        openai::BASE_URL
    }

    /// Returns the messages unchanged, because they are in this API's format.
    fn conversation(&self, messages: &[Value]) -> Result<ProviderConversation, ModelError> {
        for (index, message) in messages.iter().enumerate() {
            if !message["role"].is_string() {
                let error = format!("messages[{index}] must be an object with a role");
                return Err(message::rejected_error(error));
            }
        }
        Ok(ProviderConversation {
            system: None,
            messages: messages.to_vec(),
        })
    }

    fn path(&self, _model: &str, _is_streamed: bool) -> String {
        "chat/completions".to_owned()
    }

    fn body(&self, endpoint: &Endpoint<'_>, turn: &ModelTurn<'_>) -> Value {
        let options = turn.options;
        let mut body = Map::new();
        body.insert("model".to_owned(), json!(endpoint.model));
        body.insert("messages".to_owned(), json!(turn.conversation.messages));
        put_tools(&mut body, turn, self);
        let parallel_tool_calls = options.one_call_at_a_time.then_some(false);
        put(&mut body, "parallel_tool_calls", parallel_tool_calls);
        put(&mut body, "temperature", options.temperature);
        put(&mut body, "top_p", options.top_p);
        let length_member = choose_length_member(endpoint.base_url);
        put(&mut body, length_member, options.max_output_tokens);
        if !options.stop.is_empty() {
            body.insert("stop".to_owned(), json!(options.stop));
        }
        let stream_options = turn.stream.then(|| json!({"include_usage": true}));
        put(&mut body, "stream_options", stream_options);
        add_extra(&mut body, &options.extra);
        body.insert("stream".to_owned(), json!(turn.stream));
        remove_tool_members(&mut body, &TOOL_MEMBERS);
        Value::Object(body)
    }

    fn tool_choice(&self, choice: &ToolChoice) -> Value {
        let to_named_choice = |name: &str| json!({"type": "function", "function": {"name": name}});
        openai::tool_choice(choice, to_named_choice)
    }

    fn forwarded_parameters(&self) -> &'static [&'static str] {
        &FORWARDED_PARAMETERS
    }

    /// Reads an error. Most servers send `{"error": {"message", "type", "code"}}`; some omit the
    /// outer object, or send only a text.
    fn parse_failure<'a>(&self, body: &'a Value) -> ProviderFailure<'a> {
        /// JSON pointers to the places where errors of compatible servers contain the message.
        const MESSAGE_POINTERS: [&str; 7] = [
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
        let codes = [&error["code"], &error["type"]];
        let kinds = codes.into_iter().filter_map(Value::as_str);
        let status = error["code"].as_u64().or_else(|| error["status"].as_u64());
        ProviderFailure {
            kind: kinds.filter_map(kind_for_code).next().or_else(|| {
                status
                    .and_then(|status| u16::try_from(status).ok())
                    .filter(|status| (400..600).contains(status))
                    .map(kind_for_status)
            }),
            message: match error {
                Value::String(message) => Some(message),
                error => error["message"].as_str().or_else(|| {
                    let mut pointers = MESSAGE_POINTERS.iter();
                    pointers.find_map(|pointer| body.pointer(pointer)?.as_str())
                }),
            },
            ..ProviderFailure::default()
        }
    }

    fn parts_pointer(&self) -> &'static str {
        "/choices/0/message/tool_calls"
    }

    /// Returns why a response ended. A response with calls ends with `ToolCalls` even if the finish
    /// reason is `stop` or missing, as from some compatible servers.
    fn finish(&self, body: &Value, has_calls: bool) -> Finish {
        match ending::reason(body.pointer("/choices/0/finish_reason")) {
            Some("tool_calls" | "function_call") => Finish::ToolCalls,
            reason => match ending::finish(reason, parse_ending, has_calls) {
                Finish::Stop if is_refusal(body) => Finish::Filtered,
                finish => finish,
            },
        }
    }

    /// Counts all tokens of the total that are not input tokens as output tokens, because xAI and
    /// gateways to Gemini count reasoning tokens only in the total. Also reads the usage in the
    /// choice, where Moonshot sends it.
    fn usage(&self, body: &Value) -> Usage {
        let usage = match &body["usage"] {
            Value::Null => &body["choices"][0]["usage"],
            usage => usage,
        };
        let input_tokens = read_token_count(usage, "/prompt_tokens");
        let other_tokens = read_token_count(usage, "/total_tokens").saturating_sub(input_tokens);
        Usage {
            input_tokens,
            output_tokens: read_token_count(usage, "/completion_tokens").max(other_tokens),
            cached_tokens: read_token_count(usage, "/prompt_tokens_details/cached_tokens"),
        }
    }

    /// Reads a complete response. A call without an ID gets a generated ID.
    fn parse_response(&self, mut body: Value) -> Result<TurnResponse, ModelError> {
        self.check_error(&body)?;
        let response_id = body["id"].as_str().map(str::to_owned);
        let other_choice_calls = take_calls_of_other_choices(&mut body);
        let Some(Value::Object(choice)) = body.pointer_mut("/choices/0") else {
            return Err(failure_without_choices(&body));
        };
        check_choice(choice)?;
        let message = choice.get_mut("message").and_then(Value::as_object_mut);
        let Some(message) = message else {
            return Err(self.malformed("choices[0].message is missing"));
        };
        if let Some(calls) = other_choice_calls {
            message.insert("tool_calls".to_owned(), calls);
        }
        let call_list = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        let calls = call_list.map(Vec::as_mut_slice).unwrap_or_default();
        for (index, call) in calls.iter_mut().enumerate() {
            add_call_id(call, response_id.as_deref(), index);
        }
        let has_calls = !calls.is_empty();
        Ok(TurnResponse {
            finish: self.finish(&body, has_calls),
            usage: self.usage(&body),
            body,
        })
    }

    fn stream(&self) -> Box<dyn TurnStream> {
        Box::<stream::ChunkStream>::default()
    }
}

/// Returns the name of the member for the maximum length of a response. OpenAI's newer models
/// reject `max_tokens`, and many compatible servers only accept `max_tokens`.
fn choose_length_member(base_url: &Url) -> &'static str {
    let host = base_url.host_str().unwrap_or_default();
    let is_host = |name: &&str| match name.strip_prefix('.') {
        Some(_) => host.ends_with(*name),
        None => host == *name,
    };
    if OPENAI_HOSTS.iter().any(is_host) {
        "max_completion_tokens"
    } else {
        "max_tokens"
    }
}

/// Returns whether the text of the response is a refusal.
fn is_refusal(body: &Value) -> bool {
    refusal(OpenAiChat.provider(), body).is_ok_and(|refusal_text| !refusal_text.is_empty())
}

/// Takes the calls of another choice if the first choice has no calls. Gateways to Anthropic make a
/// choice of each block, so that the text is in the first choice and the calls are in another
/// choice.
fn take_calls_of_other_choices(body: &mut Value) -> Option<Value> {
    let choices = body.get_mut("choices")?.as_array_mut()?;
    let (first_choice, other_choices) = choices.split_first_mut()?;
    if !choice_calls(first_choice.as_object()?).is_empty() {
        return None;
    }
    let calls = other_choices.iter_mut().filter_map(|choice| {
        let calls = choice.get_mut("message")?.get_mut("tool_calls")?;
        let has_calls = calls.as_array().is_some_and(|calls| !calls.is_empty());
        has_calls.then(|| calls.take())
    });
    calls.into_iter().next()
}

/// Returns an error if the choice reports that the response ended early because of an error.
fn check_choice(choice: &mut Map<String, Value>) -> Result<(), ModelError> {
    match choice.remove("error") {
        Some(error) if !is_blank_error(&error) => OpenAiChat.check_error(&json!({"error": error})),
        _ => Ok(()),
    }
}

/// Returns the error of a response without choices. The response may be an error in the server's
/// own format.
fn failure_without_choices(body: &Value) -> ModelError {
    let failure = OpenAiChat.parse_failure(body);
    match failure.message {
        Some(_) => failure.into_error(OpenAiChat.provider()),
        None => OpenAiChat.malformed("choices[0] is missing"),
    }
}

/// Adds a generated ID to a call without an ID.
fn add_call_id(call: &mut Value, response_id: Option<&str>, index: usize) {
    let has_id = call["id"].as_str().is_some_and(|id| !id.is_empty());
    if let (false, Some(call)) = (has_id, call.as_object_mut()) {
        let id = json!(generate_call_id(response_id, index));
        call.insert("id".to_owned(), id);
    }
}

/// Generates a call ID. The response's ID is part of the call ID, so that the IDs of two responses
/// differ.
fn generate_call_id(response_id: Option<&str>, index: usize) -> String {
    let id_part: String = response_id
        .unwrap_or_default()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(32)
        .collect();
    format!("call_{id_part}_{index}")
}

fn choice_calls(choice: &Map<String, Value>) -> &[Value] {
    let message = choice.get("message").unwrap_or(&Value::Null);
    let calls = message["tool_calls"].as_array();
    calls.map(Vec::as_slice).unwrap_or_default()
}

/// Returns the meaning of a finish reason of OpenAI or of a compatible server. Gateways forward the
/// reasons of other providers.
fn parse_ending(reason: &str) -> Option<Ending> {
    Some(match reason.to_ascii_lowercase().as_str() {
        "stop" | "tool_calls" | "function_call" => Ending::Complete,
        // Finish reasons of Text Generation Inference and of gateways to Anthropic.
        "eos_token" | "stop_sequence" | "end_turn" | "tool_use" => Ending::Complete,
        // `model_length` is Mistral's value; gateways to Anthropic and Google send `max_tokens`.
        "length" | "model_length" | "max_tokens" => Ending::Length,
        "content_filter" | "safety" | "refusal" => Ending::Filtered,
        // Finish reasons of DeepSeek, vLLM and OpenRouter.
        "insufficient_system_resource" | "abort" | "error" => Ending::Failed,
        _ => return None,
    })
}

/// Returns the kind of failure for OpenAI's error codes and types; for other values, the HTTP
/// status decides.
fn kind_for_code(code: &str) -> Option<ModelErrorKind> {
    use ModelErrorKind::{ContextTooLong, Exhausted, RateLimited, Unauthorized, Unavailable};
    Some(match code {
        "context_length_exceeded" | "string_above_max_length" => ContextTooLong,
        "insufficient_quota" | "billing_hard_limit_reached" | "billing_not_active" => Exhausted,
        "invalid_api_key" | "authentication_error" | "permission_error" => Unauthorized,
        "rate_limit_exceeded" | "rate_limit_error" | "requests" | "tokens" => RateLimited,
        "server_error" | "overloaded_error" | "service_unavailable" => Unavailable,
        _ => return None,
    })
}
