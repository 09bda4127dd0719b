//! Tools, calls and results in the format of OpenAI's Responses API.

use pillion_core::tool::{JsonObject, ToolCall, ToolDefinition, ToolResult, arguments_text};
use serde_json::{Value, json};

use super::{OpenAiResponses, native};
use crate::node::{JsonFault, Node, arguments};
use crate::openai::OpenAiTool;
use crate::result_media::{
    ProviderMedia, find_pointers, format_result_content, is_common_type, prepare_results,
};
use crate::transcript::{self, TranscriptPart, content_text, role_text};
use crate::{NativeCalls, NativeMcpServer, Provider, StrictFlag, ToolFormat};

#[cfg(test)]
mod tests;

const FUNCTION_CALL_TYPE: &str = "function_call";
const FUNCTION_CALL_OUTPUT_TYPE: &str = "function_call_output";
const REASONING_TYPE: &str = "reasoning";

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
            if item.has_type(FUNCTION_CALL_TYPE)? {
                calls.push(ToolCall::new(
                    // Uses `call_id`, because results refer to `call_id`, not to the item's `id`.
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
            let is_call = item.has_type(FUNCTION_CALL_TYPE)?;
            let mut item_value = item.value().clone();
            if is_call && let Some(call) = item_value.as_object_mut() {
                let text = arguments_text(call.get("arguments").unwrap_or(&Value::Null));
                call.insert("arguments".to_owned(), json!(text));
            }
            items.push(item_value);
        }
        let is_reasoning = |item: &Value| item["type"] == REASONING_TYPE;
        while items.last().is_some_and(is_reasoning) {
            items.pop();
        }
        Ok(items)
    }

    fn format_results(&self, results: &[ToolResult]) -> Vec<Value> {
        let parts = prepare_results(self, results);
        let outputs = results.iter().zip(parts).map(|(result, parts)| {
            json!({
                "type": FUNCTION_CALL_OUTPUT_TYPE,
                "call_id": result.tool_call_id,
                "output": format_result_content(self, result, parts, format_media_part),
            })
        });
        outputs.collect()
    }

    fn transcript(&self, item: &Value) -> Vec<TranscriptPart> {
        let call = |id: &Value| transcript::call(id, &item["name"], &item["arguments"]);
        match item["type"].as_str() {
            None | Some("message") => {
                let text = content_text(&item["content"]);
                Vec::from_iter(role_text(item["role"].as_str(), text))
            }
            Some(FUNCTION_CALL_TYPE) => vec![call(&item["call_id"])],
            Some(FUNCTION_CALL_OUTPUT_TYPE) => {
                let output = content_text(&item["output"]);
                vec![transcript::result(&item["call_id"], output)]
            }
            Some("mcp_call") => {
                let content = match &item["error"] {
                    Value::Null => &item["output"],
                    error => error,
                };
                let result = transcript::result(&item["id"], content_text(content));
                vec![call(&item["id"]), result]
            }
            Some("mcp_approval_request") => vec![call(&item["id"])],
            Some("mcp_approval_response") => {
                let decision = if item["approve"] == true {
                    "approved"
                } else {
                    "denied"
                };
                let id = &item["approval_request_id"];
                vec![transcript::result(id, decision.to_owned())]
            }
            Some(_) => Vec::new(),
        }
    }

    fn result_pointers(&self, message: &Value) -> Vec<String> {
        let is_result = message["type"] == FUNCTION_CALL_OUTPUT_TYPE;
        Vec::from_iter(is_result.then(|| "/output".to_owned()))
    }

    fn accepts_media(&self, media_type: &str) -> bool {
        is_common_type(media_type) || media_type == "image/gif"
    }

    fn media_pointers(&self, message: &Value) -> Vec<String> {
        if message["type"] != FUNCTION_CALL_OUTPUT_TYPE {
            return Vec::new();
        }
        find_pointers(&message["output"], "/output", |_, part| {
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
        if item.has_type("message")? {
            text.push_str(&item.required("content")?.joined_text(kind, member)?);
        }
    }
    Ok(text)
}

fn format_media_part(media: &ProviderMedia<'_>) -> Value {
    let url = media.format_data_url();
    if media.is_image() {
        json!({"type": "input_image", "image_url": url})
    } else {
        json!({"type": "input_file", "filename": "result.pdf", "file_data": url})
    }
}
