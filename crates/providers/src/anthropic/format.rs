//! Tools, calls and results in Anthropic's format.

use pillion_core::tool::{JsonObject, ToolCall, ToolDefinition, ToolResult, arguments_object};
use pillion_schema::PropertyKeys;
use serde_json::{Value, json};

use super::{Anthropic, native};
use crate::node::{JsonFault, Node, arguments};
use crate::offered_tool::OfferedTool;
use crate::result_media::{
    ProviderMedia, find_pointers, format_result_content, is_common_type, prepare_results,
};
use crate::transcript::{self, TranscriptPart, content_text, item_text, role_text};
use crate::{NativeCalls, NativeMcpServer, Provider, StrictFlag, ToolFormat};

#[cfg(test)]
mod tests;

const TOOL_USE_BLOCK_TYPE: &str = "tool_use";

/// The types of the content blocks that are calls, with the arguments in `input`. Anthropic itself
/// runs these calls, except the calls of type [`TOOL_USE_BLOCK_TYPE`].
const BLOCKS_WITH_INPUT: [&str; 3] = [TOOL_USE_BLOCK_TYPE, "server_tool_use", "mcp_tool_use"];

/// The types of content blocks with the thoughts of a model.
const THINKING_BLOCK_TYPES: [&str; 2] = ["thinking", "redacted_thinking"];

impl ToolFormat for Anthropic {
    fn provider(&self) -> Provider {
        Provider::Anthropic
    }

    fn format_tool(&self, tool: &ToolDefinition, _: StrictFlag, _: usize) -> Value {
        let offered_tool = OfferedTool::new(tool);
        let schema = match PropertyKeys::new(tool.input_schema()) {
            Some(keys) => keys.rename_schema(&offered_tool.schema),
            None => offered_tool.schema.into_owned(),
        };
        json!({
            "name": offered_tool.name,
            "description": offered_tool.description,
            "input_schema": schema,
        })
    }

    fn parse_tool_calls(&self, body: &Node<'_>) -> Result<Vec<ToolCall>, JsonFault> {
        let mut calls = Vec::new();
        for block in body.required("content")?.items()? {
            if block.has_type(TOOL_USE_BLOCK_TYPE)? {
                calls.push(ToolCall::new(
                    block.required("id")?.text()?,
                    block.required("name")?.text()?,
                    arguments(block.optional("input")?),
                ));
            }
        }
        Ok(calls)
    }

    fn text(&self, body: &Node<'_>) -> Result<String, JsonFault> {
        body.required("content")?.joined_text("text", "text")
    }

    /// Returns the content unchanged, because the API checks the signatures of thinking blocks,
    /// with two exceptions: blank text, which a model may begin or end with, is removed, because
    /// the API rejects blank text; and thinking at the end is removed, because no message may end
    /// with thinking.
    fn assistant_messages(&self, body: &Node<'_>) -> Result<Vec<Value>, JsonFault> {
        self.parse_tool_calls(body)?;
        let mut content = Vec::new();
        for block in body.required("content")?.items()? {
            let kind = block.required("type")?.text()?;
            if kind == "text" && block.required("text")?.text()?.trim().is_empty() {
                continue;
            }
            let has_input = BLOCKS_WITH_INPUT.contains(&kind);
            let mut block_value = block.value().clone();
            if has_input && let Some(input) = block_value.get_mut("input") {
                *input = arguments_object(input);
            }
            content.push(block_value);
        }
        let is_thinking = |block: &Value| {
            let kind = block["type"].as_str();
            kind.is_some_and(|kind| THINKING_BLOCK_TYPES.contains(&kind))
        };
        while content.last().is_some_and(is_thinking) {
            content.pop();
        }
        if content.is_empty() {
            // Returns no message for a response without content, because the API rejects a message
            // without content.
            return Ok(Vec::new());
        }
        Ok(vec![json!({"role": "assistant", "content": content})])
    }

    /// Returns one message, because the API requires the results of all calls in the message after
    /// the calls.
    fn format_results(&self, results: &[ToolResult]) -> Vec<Value> {
        let parts = prepare_results(self, results);
        let blocks = results.iter().zip(parts).map(|(result, parts)| {
            let mut block = json!({
                "type": "tool_result",
                "tool_use_id": result.tool_call_id,
                "content": format_result_content(self, result, parts, format_media_block),
            });
            if !result.success {
                block["is_error"] = json!(true);
            }
            block
        });
        vec![json!({"role": "user", "content": blocks.collect::<Vec<_>>()})]
    }

    fn transcript(&self, message: &Value) -> Vec<TranscriptPart> {
        let role = message["role"].as_str();
        let Value::Array(blocks) = &message["content"] else {
            return Vec::from_iter(role_text(role, content_text(&message["content"])));
        };
        let parts =
            blocks
                .iter()
                .filter_map(|block| match block["type"].as_str().unwrap_or_default() {
                    kind if BLOCKS_WITH_INPUT.contains(&kind) => Some(transcript::call(
                        &block["id"],
                        &block["name"],
                        &block["input"],
                    )),
                    kind if THINKING_BLOCK_TYPES.contains(&kind) => None,
                    kind if kind.ends_with("tool_result") => {
                        let content = content_text(&block["content"]);
                        Some(transcript::result(&block["tool_use_id"], content))
                    }
                    _ => role_text(role, item_text(block)),
                });
        parts.collect()
    }

    fn result_pointers(&self, message: &Value) -> Vec<String> {
        let results = find_pointers(&message["content"], "/content", |_, block| {
            block["type"] == "tool_result"
        });
        let contents = results.into_iter().map(|result| result + "/content");
        contents.collect()
    }

    fn accepts_media(&self, media_type: &str) -> bool {
        is_common_type(media_type) || media_type == "image/gif"
    }

    fn media_pointers(&self, message: &Value) -> Vec<String> {
        let results = self.result_pointers(message).into_iter();
        let media = results.flat_map(|result| {
            let content = message.pointer(&result).unwrap_or(&Value::Null);
            find_pointers(content, &result, |_, part| {
                part["source"]["type"] == "base64"
            })
        });
        media.collect()
    }

    fn native_members(&self, server: &NativeMcpServer) -> Option<JsonObject> {
        native::members(server)
    }

    fn native_calls(&self, body: &Node<'_>) -> Result<NativeCalls, JsonFault> {
        native::parse_calls(body)
    }
}

fn format_media_block(media: &ProviderMedia<'_>) -> Value {
    let kind = if media.is_image() {
        "image"
    } else {
        "document"
    };
    let source = json!({"type": "base64", "media_type": media.media_type, "data": media.base64});
    json!({"type": kind, "source": source})
}
