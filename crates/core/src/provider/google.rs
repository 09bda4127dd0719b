//! Google's `generateContent` API (Gemini).

use serde_json::{Value, json};

use super::node::{Node, arguments};
use super::offered::OfferedTool;
use super::result_media::{SentPart, parts_of_results};
use super::{Provider, ProviderError};
use crate::tool::{ToolCall, ToolDefinition, ToolResult, arguments_object};

mod schema;
#[cfg(test)]
mod tests;

/// The prefix of generated ids. The API rejects an id in the result of a call without an id, so
/// generated ids must be recognizable.
const GENERATED_ID_PREFIX: &str = "pillion_call_";

/// Maximum length of a response id that becomes part of a generated call id, in bytes.
const MAX_RESPONSE_ID: usize = 64;

/// Maximum expansion of the schemas of one request, and of one schema in it, in the unit of
/// [`schema::parameters`]. Schemas of 16 bytes a unit are common, so that is half a megabyte of JSON
/// in addition to what the tools' authors wrote.
const MAX_EXPANSION: usize = 20_000;
const MAX_TOOL_EXPANSION: usize = 4_000;

/// Returns the maximum expansion of the schema of each of this number of tools. All tools of a
/// request have the same limit, so the tools of one server take nothing from those of another.
pub(super) fn max_expansion(tools: usize) -> usize {
    (MAX_EXPANSION / tools.max(1)).min(MAX_TOOL_EXPANSION)
}

pub(super) fn format_tool(tool: &ToolDefinition, max_expansion: usize) -> Value {
    let offered = OfferedTool::of(Provider::Google, tool);
    json!({
        "name": offered.name,
        "description": offered.description,
        "parameters": schema::parameters(&offered.schema, max_expansion),
    })
}

pub(super) fn parse_tool_calls(body: &Node<'_>) -> Result<Vec<ToolCall>, ProviderError> {
    let response_id = body.value().get("responseId").and_then(Value::as_str);
    let mut calls = Vec::new();
    for_each_part(body, |part| {
        let Some(call) = part.optional("functionCall")? else {
            return Ok(());
        };
        let id = match call.optional("id")? {
            Some(id) => id.text()?.to_owned(),
            None => String::new(),
        };
        let id = match id.is_empty() {
            true => synthesize_id(response_id, calls.len()),
            false => id,
        };
        calls.push(ToolCall::new(
            id,
            call.required("name")?.text()?,
            arguments(call.optional("args")?),
        ));
        Ok(())
    })?;
    Ok(calls)
}

/// Returns the same id for the same response and index. The id of the response, if there is one,
/// distinguishes the calls of different responses.
pub(super) fn synthesize_id(response_id: Option<&str>, place: usize) -> String {
    match response_id {
        Some(id) if !id.is_empty() && id.len() <= MAX_RESPONSE_ID => {
            format!("{GENERATED_ID_PREFIX}{id}_{place}")
        }
        _ => format!("{GENERATED_ID_PREFIX}{place}"),
    }
}

pub(super) fn assistant_text(body: &Node<'_>) -> Result<String, ProviderError> {
    let mut text = String::new();
    for_each_part(body, |part| {
        let is_thought = part.value().get("thought") == Some(&Value::Bool(true));
        if !is_thought && let Some(part) = part.optional("text")? {
            text.push_str(part.text()?);
        }
        Ok(())
    })?;
    Ok(text)
}

/// Returns the content unchanged, because thought signatures must stay on their part.
pub(super) fn assistant_messages(body: &Node<'_>) -> Result<Vec<Value>, ProviderError> {
    parse_tool_calls(body)?;
    let mut parts = Vec::new();
    for_each_part(body, |part| {
        let mut part = part.value().clone();
        if let Some(call) = part.get_mut("functionCall").and_then(Value::as_object_mut)
            && let Some(args) = call.get_mut("args")
        {
            *args = arguments_object(args);
        }
        parts.push(part);
        Ok(())
    })?;
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![json!({"role": "model", "parts": parts})])
}

pub(super) fn format_results(results: &[ToolResult]) -> Value {
    let mut parts: Vec<_> = results
        .iter()
        .map(|result| {
            let mut response = json!({"name": result.tool_name});
            if !result.tool_call_id.starts_with(GENERATED_ID_PREFIX) {
                response["id"] = json!(result.tool_call_id);
            }
            response["response"] = response_of(result);
            json!({"functionResponse": response})
        })
        .collect();
    // Every model that sees images accepts them beside the results; only few accept them within.
    for (result, sent) in results
        .iter()
        .zip(parts_of_results(Provider::Google, results))
    {
        for part in sent.into_iter().flatten() {
            if let SentPart::Media(media) = part {
                parts.extend(media.to_google(result));
            }
        }
    }
    json!({"role": "user", "parts": parts})
}

/// Returns the `response` object of a result. The result has a separate key, so that a result with
/// a member `error` is not mistaken for a failure.
fn response_of(result: &ToolResult) -> Value {
    let mut response = json!({});
    if !result.success {
        response["error"] = json!(result.error_text());
    }
    if let Some(reading) = result.reading() {
        response["result"] = reading.into_owned();
    }
    if let Some(note) = result.note() {
        response["note"] = json!(note);
    }
    response
}

/// Visits the parts of the first candidate. A blocked prompt has no candidate, and an aborted
/// candidate has no content or no parts; there are then no calls and no text.
fn for_each_part<'a>(
    body: &Node<'a>,
    mut visit: impl FnMut(&Node<'a>) -> Result<(), ProviderError>,
) -> Result<(), ProviderError> {
    let candidates = match body.optional("candidates")? {
        Some(candidates) => candidates,
        None if body.optional("promptFeedback")?.is_some() => return Ok(()),
        None => body.required("candidates")?,
    };
    let Some(content) = candidates.first()?.optional("content")? else {
        return Ok(());
    };
    let Some(parts) = content.optional("parts")? else {
        return Ok(());
    };
    parts.items()?.try_for_each(|part| visit(&part))
}
