use pillion_core::tool::ToolCall;
use serde_json::{Value, json};

use crate::message::{Image, ImageSource, ParsedMessage, Part, RoleMessages, failure_text, read};
use crate::{ModelError, ProviderConversation};

/// Converts messages to Anthropic's format: system messages are separate, consecutive messages of
/// one role are merged, and the results of calls come first in the user's next message.
pub(super) fn convert(messages: &[Value]) -> Result<ProviderConversation, ModelError> {
    let mut system = Vec::new();
    let mut written = RoleMessages::default();
    for message in read(messages)? {
        match message {
            ParsedMessage::System(text) if text.trim().is_empty() => {}
            ParsedMessage::System(text) => system.push(text),
            ParsedMessage::User(parts) => {
                written.add("user", parts.iter().filter_map(block).collect());
            }
            ParsedMessage::Assistant { parts, calls } => {
                let text_blocks = parts.iter().filter_map(block);
                let calls = calls.iter().map(tool_use);
                written.add("assistant", text_blocks.chain(calls).collect());
            }
            ParsedMessage::Tool { call_id, parts, .. } => {
                add_result(written.content_of("user"), tool_result(call_id, &parts));
            }
        }
    }
    let system = match system.len() {
        0 | 1 => system.pop().map(Value::String),
        _ => Some(system.iter().map(|text| text_block(text)).collect()),
    };
    ProviderConversation::new(system, written.into_values("content"))
}

/// Adds a result before any other content of the message, as the API requires.
fn add_result(content: &mut Vec<Value>, block: Value) {
    let is_result = |block: &&Value| block["type"] == "tool_result";
    let index = content.iter().take_while(is_result).count();
    content.insert(index, block);
}

/// Returns the block, or `None` for blank text, which the API rejects.
fn block(part: &Part<'_>) -> Option<Value> {
    match part {
        Part::Text(text) | Part::Refusal(text) => {
            (!text.trim().is_empty()).then(|| text_block(text))
        }
        Part::Image(image) => Some(image_block(image)),
    }
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image_block(image: &Image<'_>) -> Value {
    let source = match &image.source {
        ImageSource::Inline { media_type, data } => {
            json!({"type": "base64", "media_type": media_type, "data": data})
        }
        ImageSource::Url => json!({"type": "url", "url": image.url}),
    };
    json!({"type": "image", "source": source})
}

fn tool_use(call: &ToolCall) -> Value {
    json!({
        "type": "tool_use",
        "id": fitting_id(&call.id),
        "name": call.name,
        "input": call.arguments_object(),
    })
}

fn tool_result(call_id: &str, parts: &[Part<'_>]) -> Value {
    let mut result = json!({"type": "tool_result", "tool_use_id": fitting_id(call_id)});
    let mut blocks: Vec<_> = parts.iter().filter_map(block).collect();
    match (parts, blocks.len()) {
        (_, 0) => {}
        ([Part::Text(text)], _) => result["content"] = json!(text),
        _ => result["content"] = Value::Array(std::mem::take(&mut blocks)),
    }
    if failure_text(parts).is_some() {
        result["is_error"] = json!(true);
    }
    result
}

/// Replaces characters that the API does not accept in an id: only letters, digits, `_` and `-` are
/// allowed, but the ids of other providers contain other characters.
fn fitting_id(id: &str) -> String {
    id.chars()
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => c,
            _ => '_',
        })
        .collect()
}
