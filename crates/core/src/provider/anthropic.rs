//! Anthropic's Messages API.

use serde_json::{Value, json};

use super::node::{Node, arguments};
use super::offered::OfferedTool;
use super::result_media::{SentMedia, content_of, parts_of_results};
use super::{Provider, ProviderError};
use crate::tool::{ToolCall, ToolDefinition, ToolResult, arguments_object};

#[cfg(test)]
mod tests;

const TOOL_USE: &str = "tool_use";

/// Blocks with an `input`; Anthropic runs all but the first kind.
const BLOCKS_WITH_INPUT: [&str; 3] = [TOOL_USE, "server_tool_use", "mcp_tool_use"];

/// Blocks with the thoughts of a model.
const THINKING: [&str; 2] = ["thinking", "redacted_thinking"];

pub(super) fn format_tool(tool: &ToolDefinition) -> Value {
    let offered = OfferedTool::of(Provider::Anthropic, tool);
    json!({
        "name": offered.name,
        "description": offered.description,
        "input_schema": offered.schema,
    })
}

pub(super) fn parse_tool_calls(body: &Node<'_>) -> Result<Vec<ToolCall>, ProviderError> {
    let mut calls = Vec::new();
    for block in body.required("content")?.items()? {
        if block.is_type(TOOL_USE)? {
            calls.push(ToolCall::new(
                block.required("id")?.text()?,
                block.required("name")?.text()?,
                arguments(block.optional("input")?),
            ));
        }
    }
    Ok(calls)
}

pub(super) fn assistant_text(body: &Node<'_>) -> Result<String, ProviderError> {
    let mut text = String::new();
    for block in body.required("content")?.items()? {
        if block.is_type("text")? {
            text.push_str(block.required("text")?.text()?);
        }
    }
    Ok(text)
}

/// Returns the content unchanged, because the API checks the signatures of thinking blocks, with
/// two exceptions. Blank text, which a model may begin or end with, is removed, because the API
/// rejects it; and so is thinking at the end, with which no message may end.
pub(super) fn assistant_messages(body: &Node<'_>) -> Result<Vec<Value>, ProviderError> {
    parse_tool_calls(body)?;
    let mut content = Vec::new();
    for block in body.required("content")?.items()? {
        let kind = block.required("type")?.text()?;
        if kind == "text" && block.required("text")?.text()?.trim().is_empty() {
            continue;
        }
        let has_input = BLOCKS_WITH_INPUT.contains(&kind);
        let mut block = block.value().clone();
        if has_input && let Some(input) = block.get_mut("input") {
            *input = arguments_object(input);
        }
        content.push(block);
    }
    let is_thinking = |block: &Value| {
        block["type"]
            .as_str()
            .is_some_and(|kind| THINKING.contains(&kind))
    };
    while content.last().is_some_and(is_thinking) {
        content.pop();
    }
    if content.is_empty() {
        // A response may have no text, and the API rejects a message without content.
        return Ok(Vec::new());
    }
    Ok(vec![json!({"role": "assistant", "content": content})])
}

/// Returns one message, because the API requires the results of all calls in the next message.
pub(super) fn format_results(results: &[ToolResult]) -> Value {
    let parts = parts_of_results(Provider::Anthropic, results);
    let blocks: Vec<_> = results
        .iter()
        .zip(parts)
        .map(|(result, parts)| {
            let mut block = json!({
                "type": "tool_result",
                "tool_use_id": result.tool_call_id,
                "content": content_of(Provider::Anthropic, result, parts, SentMedia::to_anthropic),
            });
            if !result.success {
                block["is_error"] = json!(true);
            }
            block
        })
        .collect();
    json!({"role": "user", "content": blocks})
}
