//! Tools, calls and results in Google's format.

use pillion_core::tool::{ToolCall, ToolDefinition, ToolResult, arguments_object};
use serde_json::{Value, json};

use super::{Google, schema};
use crate::node::{JsonFault, Node, arguments};
use crate::offered_tool::OfferedTool;
use crate::result_media::{
    ProviderMedia, ProviderPart, find_pointers, is_common_type, prepare_results,
};
use crate::transcript::{self, TranscriptPart, item_text, role_text};
use crate::{Provider, StrictFlag, ToolFormat};

#[cfg(test)]
mod tests;

/// The prefix of generated call IDs, by which Pillion recognizes and omits them in results. The API
/// rejects a result with an ID if the call has no ID.
const GENERATED_ID_PREFIX: &str = "pillion_call_";

/// Maximum length of a response ID that becomes part of a generated call ID, in bytes.
const MAX_RESPONSE_ID_BYTES: usize = 64;

/// Maximum number of units by which inlining `$ref` may enlarge all schemas of a request together.
/// [`schema::convert_parameters`] defines the unit. The maximum is about half a megabyte of JSON.
const MAX_SCHEMA_GROWTH: usize = 20_000;
/// Maximum number of units by which inlining `$ref` may enlarge one schema of a request.
pub(super) const MAX_TOOL_SCHEMA_GROWTH: usize = 4_000;

/// The beginning of the label that precedes an image, an audio item or a file of a result.
const MEDIA_LABEL_PREFIX: &str = "[Result of ";

impl ToolFormat for Google {
    fn provider(&self) -> Provider {
        Provider::Google
    }

    /// Limits how much inlining `$ref` enlarges the tool's schema. [`MAX_SCHEMA_GROWTH`] is divided
    /// equally among the tools of the request, so that the tools of one server do not use up the
    /// limit of another server's tools.
    fn format_tool(&self, tool: &ToolDefinition, _: StrictFlag, tool_count: usize) -> Value {
        let max_schema_growth = (MAX_SCHEMA_GROWTH / tool_count.max(1)).min(MAX_TOOL_SCHEMA_GROWTH);
        let offered_tool = OfferedTool::new(tool);
        json!({
            "name": tool.name().short(),
            "description": offered_tool.description,
            "parameters": schema::convert_parameters(&offered_tool.schema, max_schema_growth),
        })
    }

    fn parse_tool_calls(&self, body: &Node<'_>) -> Result<Vec<ToolCall>, JsonFault> {
        let response_id = body.value().get("responseId").and_then(Value::as_str);
        let mut calls = Vec::new();
        for part in parts(body)? {
            let Some(call) = part.optional("functionCall")? else {
                continue;
            };
            let id = call.optional("id")?.map_or(Ok(""), |id| id.text())?;
            calls.push(ToolCall::new(
                find_or_generate_id(id, response_id, calls.len()),
                call.required("name")?.text()?,
                arguments(call.optional("args")?),
            ));
        }
        Ok(calls)
    }

    fn text(&self, body: &Node<'_>) -> Result<String, JsonFault> {
        let mut text = String::new();
        for part in parts(body)? {
            let is_thought = part.value().get("thought") == Some(&Value::Bool(true));
            if !is_thought && let Some(part) = part.optional("text")? {
                text.push_str(part.text()?);
            }
        }
        Ok(text)
    }

    /// Returns the content unchanged, because a thought signature must stay on the part that it
    /// signs.
    fn assistant_messages(&self, body: &Node<'_>) -> Result<Vec<Value>, JsonFault> {
        self.parse_tool_calls(body)?;
        let mut model_parts = Vec::new();
        for part in parts(body)? {
            let mut part_value = part.value().clone();
            if let Some(args) = part_value.pointer_mut("/functionCall/args") {
                *args = arguments_object(args);
            }
            model_parts.push(part_value);
        }
        if model_parts.is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec![json!({"role": "model", "parts": model_parts})])
    }

    fn format_results(&self, results: &[ToolResult]) -> Vec<Value> {
        let mut parts: Vec<_> = results
            .iter()
            .map(|result| {
                let mut response = json!({"name": result.tool_name});
                if !result.tool_call_id.starts_with(GENERATED_ID_PREFIX) {
                    response["id"] = json!(result.tool_call_id);
                }
                response["response"] = format_response(result);
                json!({"functionResponse": response})
            })
            .collect();
        // Adds images after the `functionResponse` parts, which every model with image input
        // accepts. Only few models accept images within a `functionResponse` part.
        for (result, result_parts) in results.iter().zip(prepare_results(self, results)) {
            for part in result_parts.into_iter().flatten() {
                if let ProviderPart::Media(media) = part {
                    parts.extend(format_media_parts(&media, result));
                }
            }
        }
        vec![json!({"role": "user", "parts": parts})]
    }

    fn transcript(&self, message: &Value) -> Vec<TranscriptPart> {
        let role = message["role"].as_str();
        let items = message["parts"].as_array();
        let parts = items.into_iter().flatten().filter_map(|part| {
            let (call, result) = (&part["functionCall"], &part["functionResponse"]);
            if call.is_object() {
                Some(transcript::call(&call["id"], &call["name"], &call["args"]))
            } else if result.is_object() {
                let response = &result["response"];
                let members = ["error", "result"];
                let content = members.iter().find_map(|member| response.get(member));
                let text = match content.unwrap_or(response) {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                Some(transcript::result(&result["id"], text))
            } else if part["thought"] == true {
                None
            } else {
                role_text(role, item_text(part))
            }
        });
        parts.collect()
    }

    fn result_pointers(&self, message: &Value) -> Vec<String> {
        let results = find_pointers(&message["parts"], "/parts", |_, part| {
            part["functionResponse"].is_object()
        });
        let responses = results
            .into_iter()
            .map(|result| result + "/functionResponse/response");
        responses.collect()
    }

    fn text_result(&self, text: &str) -> Value {
        json!({"result": text})
    }

    fn accepts_media(&self, media_type: &str) -> bool {
        match media_type.split_once('/') {
            Some(("image", "heic" | "heif")) => true,
            Some(("audio", "wav" | "mp3" | "mpeg" | "aiff" | "aac" | "ogg" | "flac")) => true,
            _ => is_common_type(media_type),
        }
    }

    fn media_pointers(&self, message: &Value) -> Vec<String> {
        find_pointers(&message["parts"], "/parts", |previous_part, part| {
            let label = previous_part.and_then(|previous_part| previous_part["text"].as_str());
            part["inlineData"].is_object()
                && label.is_some_and(|label| label.starts_with(MEDIA_LABEL_PREFIX))
        })
    }

    fn text_part(&self, text: &str) -> Value {
        json!({"text": text})
    }

    /// Returns the error of a body. If the response would have been streamed in chunks, the API
    /// wraps the error in an array.
    fn error<'a>(&self, body: &'a Value) -> Option<&'a Value> {
        let error = body.get(0).unwrap_or(body).get("error");
        error.filter(|error| !error.is_null())
    }
}

/// Returns the ID of a call, or a generated ID if the call has no ID. The generated ID is the same
/// for the same response and index. The ID of the response, if there is one, distinguishes the
/// calls of different responses.
pub(super) fn find_or_generate_id(id: &str, response_id: Option<&str>, index: usize) -> String {
    match response_id {
        _ if !id.is_empty() => id.to_owned(),
        Some(response_id) if (1..=MAX_RESPONSE_ID_BYTES).contains(&response_id.len()) => {
            format!("{GENERATED_ID_PREFIX}{response_id}_{index}")
        }
        _ => format!("{GENERATED_ID_PREFIX}{index}"),
    }
}

/// Returns the two parts for an image, an audio item or a file of a result: a label and the data.
/// These parts follow the results.
fn format_media_parts(media: &ProviderMedia<'_>, result: &ToolResult) -> [Value; 2] {
    let marker = media.media.marker();
    let label = format!("{MEDIA_LABEL_PREFIX}{}: {marker}]", result.tool_name);
    let data = json!({"mimeType": media.media_type, "data": media.base64});
    [json!({"text": label}), json!({"inlineData": data})]
}

/// Returns the `response` object of a result. The result is in its own member, so that a result
/// with a member `error` is not mistaken for a failure.
fn format_response(result: &ToolResult) -> Value {
    let mut response = json!({});
    if !result.success {
        response["error"] = json!(result.error_text());
    }
    if let Some(value) = result.reading() {
        response["result"] = value.into_owned();
    }
    if let Some(note) = result.note() {
        response["note"] = json!(note);
    }
    response
}

/// Returns the parts of the first candidate. Returns no parts for a blocked prompt, whose response
/// has no candidate, and for an aborted candidate without content or parts.
fn parts<'a>(body: &Node<'a>) -> Result<Vec<Node<'a>>, JsonFault> {
    let candidates = match body.optional("candidates")? {
        Some(candidates) => candidates,
        None if body.optional("promptFeedback")?.is_some() => return Ok(Vec::new()),
        None => body.required("candidates")?,
    };
    if let Some(content) = candidates.first()?.optional("content")?
        && let Some(parts) = content.optional("parts")?
    {
        return Ok(parts.items()?.collect());
    }
    Ok(Vec::new())
}
