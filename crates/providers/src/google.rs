//! Google's `generateContent` API (Gemini), as documented under
//! `ai.google.dev/api/generate-content`.

mod conversation;
mod failure;
mod format;
mod schema;
mod stream;
#[cfg(test)]
mod tests;

use http::HeaderMap;
use http::header::HeaderName;
use serde_json::{Map, Value, json};

use crate::api::read_turn;
use crate::ending::{self, Ending};
use crate::failure::ProviderFailure;
use crate::request::{
    add_extra, create_json_headers, encode_segment, format_turn_tools, parse_leading_number, put,
    put_secret, remove_tool_members,
};
use crate::turn::read_token_count;
use crate::{
    Endpoint, Finish, ModelError, ModelTurn, ProviderApi, ProviderConversation, ToolChoice,
    TurnResponse, TurnStream, Usage,
};

/// The placeholder signature for a call that was not made by a Gemini model. Models since Gemini 3
/// reject calls without a signature; Google's documentation defines this value for conversations
/// from other models.
const PLACEHOLDER_SIGNATURE: &str = "skip_thought_signature_validator";

/// Google's `generateContent` API.
pub(crate) struct Google;

impl ProviderApi for Google {
    fn base_url(&self) -> &'static str {
        "https://generativelanguage.googleapis.com/v1beta"
    }

    fn conversation(&self, messages: &[Value]) -> Result<ProviderConversation, ModelError> {
        conversation::convert(messages)
    }

    /// `model` may include the collection of the model, as in `models/gemini-2.5-flash` and
    /// `tunedModels/mine`.
    fn path(&self, model: &str, is_streamed: bool) -> String {
        let (collection, name) = match model.split_once('/') {
            Some((collection @ ("models" | "tunedModels"), name)) => (collection, name),
            _ => ("models", model),
        };
        let method = if is_streamed {
            "streamGenerateContent?alt=sse"
        } else {
            "generateContent"
        };
        format!("{collection}/{}:{method}", encode_segment(name))
    }

    fn headers(&self, key: Option<&str>) -> Result<HeaderMap, ModelError> {
        let mut headers = create_json_headers();
        put_secret(&mut headers, HeaderName::from_static("x-goog-api-key"), key)?;
        Ok(headers)
    }

    fn body(&self, endpoint: &Endpoint<'_>, turn: &ModelTurn<'_>) -> Value {
        let mut body = Map::new();
        let system = turn.conversation.system.clone();
        put(&mut body, "systemInstruction", system);
        let mut contents = turn.conversation.messages.clone();
        if requires_signatures(endpoint.model) {
            contents.iter_mut().for_each(sign_first_call);
        }
        body.insert("contents".to_owned(), Value::Array(contents));
        let declarations = format_turn_tools(turn, self);
        let tools = declarations.map(|tools| json!([{"functionDeclarations": tools}]));
        put(&mut body, "tools", tools);
        let requested_choice = turn.options.tool_choice.as_ref();
        let choice = requested_choice.map(|choice| self.tool_choice(choice));
        put(&mut body, "toolConfig", choice);
        let config = create_generation_config(turn);
        if !config.is_empty() {
            body.insert("generationConfig".to_owned(), Value::Object(config));
        }
        add_extra(&mut body, &turn.options.extra);
        remove_tool_members(&mut body, &["toolConfig"]);
        Value::Object(body)
    }

    fn tool_choice(&self, choice: &ToolChoice) -> Value {
        let config = match choice {
            ToolChoice::Auto => json!({"mode": "AUTO"}),
            ToolChoice::None => json!({"mode": "NONE"}),
            ToolChoice::Required => json!({"mode": "ANY"}),
            ToolChoice::Tool(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
        };
        json!({"functionCallingConfig": config})
    }

    fn parse_failure<'a>(&self, body: &'a Value) -> ProviderFailure<'a> {
        failure::parse(body)
    }

    fn parts_pointer(&self) -> &'static str {
        "/candidates/0/content/parts"
    }

    fn finish(&self, body: &Value, has_calls: bool) -> Finish {
        let reason = ending::reason(body.pointer("/candidates/0/finishReason"));
        if reason.is_none() && find_block_reason(body.get("promptFeedback")).is_some() {
            return Finish::Filtered;
        }
        ending::finish(reason, parse_ending, has_calls)
    }

    fn usage(&self, body: &Value) -> Usage {
        let read_count = |key: &str| read_token_count(body, &format!("/usageMetadata/{key}"));
        Usage {
            // The cached tokens are not added, because `promptTokenCount` includes them.
            input_tokens: read_count("promptTokenCount")
                .saturating_add(read_count("toolUsePromptTokenCount")),
            output_tokens: read_count("candidatesTokenCount")
                .saturating_add(read_count("thoughtsTokenCount")),
            cached_tokens: read_count("cachedContentTokenCount"),
        }
    }

    fn parse_response(&self, body: Value) -> Result<TurnResponse, ModelError> {
        match body {
            // If a proxy removes `alt=sse` from the URL, Google sends the stream as one array.
            Value::Array(responses) => stream::read_responses(responses),
            body => read_response(body),
        }
    }

    fn stream(&self) -> Box<dyn TurnStream> {
        Box::<stream::ContentStream>::default()
    }
}

fn create_generation_config(turn: &ModelTurn<'_>) -> Map<String, Value> {
    let options = turn.options;
    let mut config = Map::new();
    put(&mut config, "temperature", options.temperature);
    put(&mut config, "topP", options.top_p);
    put(&mut config, "maxOutputTokens", options.max_output_tokens);
    if !options.stop.is_empty() {
        config.insert("stopSequences".to_owned(), json!(options.stop));
    }
    config
}

/// Returns whether the model is Gemini 3 or later, which requires signatures.
fn requires_signatures(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or_default();
    let generation = name.strip_prefix("gemini-").and_then(parse_leading_number);
    // Names without a generation, such as `gemini-flash-latest`, refer to the newest generation.
    generation.is_none_or(|generation| generation >= 3) && name.starts_with("gemini-")
}

/// Adds a signature to the first call of a model's message, where the API requires one.
fn sign_first_call(content: &mut Value) {
    let mut parts = content
        .get_mut("parts")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten();
    let first_call = parts.find(|part| part.get("functionCall").is_some());
    if let Some(Value::Object(call)) = first_call {
        let signature = json!(PLACEHOLDER_SIGNATURE);
        call.entry("thoughtSignature").or_insert(signature);
    }
}

/// Reads a complete response that is one JSON object.
fn read_response(body: Value) -> Result<TurnResponse, ModelError> {
    let response = read_turn(&Google, body)?;
    let has_candidates = response.body.get("candidates").is_some_and(Value::is_array);
    if !has_candidates && find_block_reason(response.body.get("promptFeedback")).is_none() {
        return Err(Google.malformed("candidates is missing"));
    }
    Ok(response)
}

/// Returns why Google blocked the prompt; `None` if the prompt was not blocked.
fn find_block_reason(feedback: Option<&Value>) -> Option<&str> {
    ending::reason(feedback?.get("blockReason"))
}

/// Returns the meaning of a `FinishReason`, which some proxies write in lower case:
/// <https://ai.google.dev/api/generate-content#FinishReason>
fn parse_ending(reason: &str) -> Option<Ending> {
    Some(match reason.to_ascii_uppercase().as_str() {
        "STOP" => Ending::Complete,
        "MAX_TOKENS" => Ending::Length,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Ending::Filtered,
        "OTHER"
        | "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MISSING_THOUGHT_SIGNATURE"
        | "MALFORMED_RESPONSE"
        | "IMAGE_OTHER"
        | "NO_IMAGE" => Ending::Failed,
        _ => return None,
    })
}
