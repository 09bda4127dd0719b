use pillion_core::tool::ToolCall;
use serde_json::{Value, json};

use crate::message::{
    Image, ImageSource, ParsedMessage, Part, RoleMessages, parse_failure_text, parse_messages,
};
use crate::{ModelError, ProviderConversation};

/// Converts messages to Anthropic's format, in which system messages are separate, consecutive
/// messages of one role are merged, and the results of calls come first in the user's next message.
pub(super) fn convert(messages: &[Value]) -> Result<ProviderConversation, ModelError> {
    let mut system_texts = Vec::new();
    let mut role_messages = RoleMessages::default();
    for message in parse_messages(messages)? {
        match message {
            ParsedMessage::System(text) if text.trim().is_empty() => {}
            ParsedMessage::System(text) => system_texts.push(text),
            ParsedMessage::User(parts) => {
                role_messages.add("user", parts.iter().filter_map(format_block).collect());
            }
            ParsedMessage::Assistant { parts, calls } => {
                let text_blocks = parts.iter().filter_map(format_block);
                let calls = calls.iter().map(format_tool_use);
                role_messages.add("assistant", text_blocks.chain(calls).collect());
            }
            ParsedMessage::Tool { call_id, parts, .. } => {
                let content = role_messages.content_for_role("user");
                add_result(content, format_tool_result(call_id, &parts));
            }
        }
    }
    let system = match system_texts.len() {
        0 | 1 => system_texts.pop().map(Value::String),
        _ => Some(system_texts.iter().map(|text| format_text(text)).collect()),
    };
    ProviderConversation::new(system, role_messages.into_values("content"))
}

/// Adds a result before any other content of the message, as the API requires.
fn add_result(content: &mut Vec<Value>, block: Value) {
    let is_result = |block: &&Value| block["type"] == "tool_result";
    let index = content.iter().take_while(is_result).count();
    content.insert(index, block);
}

/// Returns the content block for a part, or `None` for blank text, which the API rejects.
fn format_block(part: &Part<'_>) -> Option<Value> {
    match part {
        Part::Text(text) | Part::Refusal(text) if text.trim().is_empty() => None,
        Part::Text(text) | Part::Refusal(text) => Some(format_text(text)),
        Part::Image(image) => Some(format_image(image)),
    }
}

fn format_text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn format_image(image: &Image<'_>) -> Value {
    let source = match &image.source {
        ImageSource::Inline { media_type, data } => {
            json!({"type": "base64", "media_type": media_type, "data": data})
        }
        ImageSource::Url => json!({"type": "url", "url": image.url}),
    };
    json!({"type": "image", "source": source})
}

fn format_tool_use(call: &ToolCall) -> Value {
    json!({
        "type": "tool_use",
        "id": sanitize_id(&call.id),
        "name": call.name,
        "input": call.arguments_object(),
    })
}

fn format_tool_result(call_id: &str, parts: &[Part<'_>]) -> Value {
    let mut result = json!({"type": "tool_result", "tool_use_id": sanitize_id(call_id)});
    let mut blocks: Vec<_> = parts.iter().filter_map(format_block).collect();
    match (parts, blocks.len()) {
        (_, 0) => {}
        ([Part::Text(text)], _) => result["content"] = json!(text),
        _ => result["content"] = Value::Array(std::mem::take(&mut blocks)),
    }
    if parse_failure_text(parts).is_some() {
        result["is_error"] = json!(true);
    }
    result
}

/// Replaces characters that the API does not accept in an ID. The API allows only letters, digits,
/// `_` and `-`, but the IDs of other providers contain other characters.
fn sanitize_id(id: &str) -> String {
    id.chars()
        .map(|character| match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => character,
            _ => '_',
        })
        .collect()
}
