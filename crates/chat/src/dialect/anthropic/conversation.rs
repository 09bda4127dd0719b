use pillion_core::tool::ToolCall;
use serde_json::{Value, json};

use crate::dialect::message::{Image, ImageSource, ParsedMessage, Part, failure_text, read};
use crate::{ModelError, ModelErrorKind, ProviderConversation};

/// Converts messages to Anthropic's format: system messages are separate, consecutive messages of
/// one role are merged, and the results of calls come first in the user's next message.
pub(super) fn of(messages: &[Value]) -> Result<ProviderConversation, ModelError> {
    let mut system = Vec::new();
    let mut written = AnthropicMessages::default();
    for message in read(messages)? {
        match message {
            ParsedMessage::System(text) if text.trim().is_empty() => {}
            ParsedMessage::System(text) => system.push(text),
            ParsedMessage::User(parts) => {
                written.add_blocks("user", parts.iter().filter_map(block).collect());
            }
            ParsedMessage::Assistant { parts, calls } => {
                let text_blocks = parts.iter().filter_map(block);
                let calls = calls.iter().map(tool_use);
                written.add_blocks("assistant", text_blocks.chain(calls).collect());
            }
            ParsedMessage::Tool { call_id, parts, .. } => {
                written.result(tool_result(call_id, &parts));
            }
        }
    }
    if written.messages.is_empty() {
        return Err(ModelError::new(
            ModelErrorKind::Refused,
            "messages has no user or assistant message",
        ));
    }
    Ok(ProviderConversation {
        system: match system.len() {
            0 => None,
            1 => system.pop().map(Value::String),
            _ => Some(Value::Array(
                system.iter().map(|text| text_block(text)).collect(),
            )),
        },
        messages: written
            .messages
            .into_iter()
            .map(|(role, content)| json!({"role": role, "content": content}))
            .collect(),
    })
}

#[derive(Default)]
struct AnthropicMessages {
    messages: Vec<(&'static str, Vec<Value>)>,
}

impl AnthropicMessages {
    fn add_blocks(&mut self, role: &'static str, blocks: Vec<Value>) {
        if !blocks.is_empty() {
            self.of_role(role).extend(blocks);
        }
    }

    /// The API requires results before any other content of their message.
    fn result(&mut self, block: Value) {
        let content = self.of_role("user");
        let index = content
            .iter()
            .position(|block| block["type"] != "tool_result")
            .unwrap_or(content.len());
        content.insert(index, block);
    }

    /// Returns the content of the last message if it has this role, else of a new message.
    fn of_role(&mut self, role: &'static str) -> &mut Vec<Value> {
        let is_new = self.messages.last().is_none_or(|(last, _)| *last != role);
        if is_new {
            self.messages.push((role, Vec::new()));
        }
        let last = self.messages.len() - 1;
        &mut self.messages[last].1
    }
}

/// Returns the block, or `None` for blank text, which the API rejects.
fn block(part: &Part<'_>) -> Option<Value> {
    match part {
        Part::Text(text) => (!text.trim().is_empty()).then(|| text_block(text)),
        Part::Refusal(text) => (!text.trim().is_empty()).then(|| text_block(text)),
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
/// allowed, but models of other providers use others.
fn fitting_id(id: &str) -> String {
    id.chars()
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => c,
            _ => '_',
        })
        .collect()
}
