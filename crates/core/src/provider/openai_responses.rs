//! OpenAI's Responses API.

use serde_json::{Value, json};

use super::node::{Node, arguments};
use super::offered::OfferedTool;
use super::result_media::{SentMedia, content_of, parts_of_results};
use super::{Provider, ProviderError, openai_chat};
use crate::tool::{ToolCall, ToolDefinition, ToolResult, arguments_text};

#[cfg(test)]
mod tests;

const FUNCTION_CALL: &str = "function_call";
const REASONING: &str = "reasoning";

pub(super) fn format_tool(tool: &ToolDefinition) -> Value {
    let offered = OfferedTool::of(Provider::OpenAiResponses, tool);
    let (parameters, is_strict) = openai_chat::parameters(tool, offered.schema);
    json!({
        "type": "function",
        "name": offered.name,
        "description": offered.description,
        "parameters": parameters,
        "strict": is_strict,
    })
}

pub(super) fn parse_tool_calls(body: &Node<'_>) -> Result<Vec<ToolCall>, ProviderError> {
    let mut calls = Vec::new();
    for item in body.required("output")?.items()? {
        if item.is_type(FUNCTION_CALL)? {
            calls.push(ToolCall::new(
                // Results refer to `call_id`, not to the item's `id`.
                item.required("call_id")?.text()?,
                item.required("name")?.text()?,
                arguments(item.optional("arguments")?),
            ));
        }
    }
    Ok(calls)
}

pub(super) fn assistant_text(body: &Node<'_>) -> Result<String, ProviderError> {
    said(body, "output_text", "text")
}

pub(super) fn refusal(body: &Node<'_>) -> Result<String, ProviderError> {
    said(body, "refusal", "refusal")
}

/// Returns the joined texts in `member` of all parts of this kind.
fn said(body: &Node<'_>, kind: &str, member: &str) -> Result<String, ProviderError> {
    let mut text = String::new();
    for item in body.required("output")?.items()? {
        if !item.is_type("message")? {
            continue;
        }
        for part in item.required("content")?.items()? {
            if part.is_type(kind)? {
                text.push_str(part.required(member)?.text()?);
            }
        }
    }
    Ok(text)
}

/// Returns all items, because a call of a reasoning model is rejected without the reasoning before
/// it. Reasoning at the end, which a truncated response may have, is removed, because it is
/// rejected, too.
pub(super) fn assistant_messages(body: &Node<'_>) -> Result<Vec<Value>, ProviderError> {
    parse_tool_calls(body)?;
    let mut items = Vec::new();
    for item in body.required("output")?.items()? {
        let is_call = item.is_type(FUNCTION_CALL)?;
        let mut item = item.value().clone();
        if is_call && let Some(call) = item.as_object_mut() {
            let text = arguments_text(call.get("arguments").unwrap_or(&Value::Null));
            call.insert("arguments".to_owned(), json!(text));
        }
        items.push(item);
    }
    while items.last().is_some_and(|item| item["type"] == REASONING) {
        items.pop();
    }
    Ok(items)
}

pub(super) fn format_results(results: &[ToolResult]) -> Vec<Value> {
    let parts = parts_of_results(Provider::OpenAiResponses, results);
    let results = results.iter().zip(parts);
    results
        .map(|(result, parts)| {
            json!({
                "type": "function_call_output",
                "call_id": result.tool_call_id,
                "output": content_of(
                    Provider::OpenAiResponses,
                    result,
                    parts,
                    SentMedia::to_openai_responses,
                ),
            })
        })
        .collect()
}
