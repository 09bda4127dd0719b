//! Tools, calls and results in the format of OpenAI's Responses API.

use pillion_core::tool::{JsonObject, ToolCall, ToolDefinition, ToolResult, arguments_text};
use serde_json::{Value, json};

use super::{OpenAiResponses, native};
use crate::node::{JsonFault, Node, arguments};
use crate::openai::OpenAiTool;
use crate::result_media::{SentMedia, content_of, is_common_type, parts_of_results, pointers};
use crate::{NativeCalls, NativeMcpServer, Provider, StrictFlag, ToolFormat};

#[cfg(test)]
mod tests;

const FUNCTION_CALL: &str = "function_call";
const FUNCTION_CALL_OUTPUT: &str = "function_call_output";
const REASONING: &str = "reasoning";

impl ToolFormat for OpenAiResponses {
    fn provider(&self) -> Provider {
        Provider::OpenAiResponses
    }

    fn format_tool(&self, tool: &ToolDefinition, _: StrictFlag, _: usize) -> Value {
        let tool = OpenAiTool::new(tool);
        json!({
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": tool.is_strict,
        })
    }

    fn parse_tool_calls(&self, body: &Node<'_>) -> Result<Vec<ToolCall>, JsonFault> {
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

    fn text(&self, body: &Node<'_>) -> Result<String, JsonFault> {
        joined_text(body, "output_text", "text")
    }

    fn refusal(&self, body: &Node<'_>) -> Result<String, JsonFault> {
        joined_text(body, "refusal", "refusal")
    }

    /// Returns all items, because the API rejects a call of a reasoning model without the reasoning
    /// before the call. Reasoning at the end, which a truncated response may have, is removed,
    /// because the API rejects it, too.
    fn assistant_messages(&self, body: &Node<'_>) -> Result<Vec<Value>, JsonFault> {
        self.parse_tool_calls(body)?;
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

    fn format_results(&self, results: &[ToolResult]) -> Vec<Value> {
        let parts = parts_of_results(self, results);
        let outputs = results.iter().zip(parts).map(|(result, parts)| {
            json!({
                "type": FUNCTION_CALL_OUTPUT,
                "call_id": result.tool_call_id,
                "output": content_of(self, result, parts, media_part),
            })
        });
        outputs.collect()
    }

    fn result_pointers(&self, message: &Value) -> Vec<String> {
        let is_result = message["type"] == FUNCTION_CALL_OUTPUT;
        Vec::from_iter(is_result.then(|| "/output".to_owned()))
    }

    fn accepts_media(&self, media_type: &str) -> bool {
        is_common_type(media_type) || media_type == "image/gif"
    }

    fn media_pointers(&self, message: &Value) -> Vec<String> {
        if message["type"] != FUNCTION_CALL_OUTPUT {
            return Vec::new();
        }
        pointers(&message["output"], "/output", |_, part| {
            matches!(part["type"].as_str(), Some("input_image" | "input_file"))
        })
    }

    fn text_part(&self, text: &str) -> Value {
        json!({"type": "input_text", "text": text})
    }

    fn native_members(&self, server: &NativeMcpServer) -> Option<JsonObject> {
        Some(native::members(server))
    }

    fn requests_approval(&self) -> bool {
        true
    }

    fn native_calls(&self, body: &Node<'_>) -> Result<NativeCalls, JsonFault> {
        native::parse_calls(body)
    }

    fn format_permits(&self, results: &[ToolResult]) -> Vec<Value> {
        results.iter().map(native::format_permit).collect()
    }
}

/// Returns the joined texts in `member` of all parts of this type.
fn joined_text(body: &Node<'_>, kind: &str, member: &str) -> Result<String, JsonFault> {
    let mut text = String::new();
    for item in body.required("output")?.items()? {
        if item.is_type("message")? {
            text.push_str(&item.required("content")?.joined_text(kind, member)?);
        }
    }
    Ok(text)
}

fn media_part(media: &SentMedia<'_>) -> Value {
    let url = media.data_url();
    if media.is_image() {
        json!({"type": "input_image", "image_url": url})
    } else {
        json!({"type": "input_file", "filename": "result.pdf", "file_data": url})
    }
}
