use serde_json::{Value, json};

use crate::message::{Image, ParsedMessage, Part, parse_messages};
use crate::{ModelError, ProviderConversation};

/// Converts messages to items, one for each message, call and result. Leading system messages
/// become `instructions`; later system messages stay in place.
pub(super) fn convert(messages: &[Value]) -> Result<ProviderConversation, ModelError> {
    let mut system_texts = Vec::new();
    let mut items = Vec::new();
    for message in parse_messages(messages)? {
        match message {
            ParsedMessage::System(text) if text.is_empty() => {}
            ParsedMessage::System(text) if items.is_empty() => system_texts.push(text),
            ParsedMessage::System(text) => {
                let part = json!({"type": "input_text", "text": text});
                items.push(format_message_item("system", [part]));
            }
            ParsedMessage::User(parts) => {
                if !parts.is_empty() {
                    let content = parts.iter().map(format_input_part);
                    items.push(format_message_item("user", content));
                }
            }
            ParsedMessage::Assistant { parts, calls } => {
                if !parts.is_empty() {
                    let content = parts.iter().map(format_output_part);
                    items.push(format_message_item("assistant", content));
                }
                items.extend(calls.iter().map(|call| {
                    json!({
                        "type": "function_call",
                        "call_id": call.id,
                        "name": call.name,
                        "arguments": call.arguments_text(),
                    })
                }));
            }
            ParsedMessage::Tool { call_id, parts, .. } => items.push(json!({
                "type": "function_call_output",
                "call_id": call_id,
                "output": format_result_output(&parts),
            })),
        }
    }
    let instructions = (!system_texts.is_empty()).then(|| json!(system_texts.join("\n\n")));
    ProviderConversation::new(instructions, items)
}

fn format_message_item(role: &str, content: impl IntoIterator<Item = Value>) -> Value {
    let content: Value = content.into_iter().collect();
    json!({"type": "message", "role": role, "content": content})
}

fn format_input_part(part: &Part<'_>) -> Value {
    match part {
        Part::Text(text) | Part::Refusal(text) => json!({"type": "input_text", "text": text}),
        Part::Image(image) => format_image(image),
    }
}

fn format_output_part(part: &Part<'_>) -> Value {
    match part {
        Part::Text(text) => json!({"type": "output_text", "text": text}),
        Part::Refusal(text) => json!({"type": "refusal", "refusal": text}),
        Part::Image(image) => format_image(image),
    }
}

fn format_image(image: &Image<'_>) -> Value {
    json!({
        "type": "input_image",
        "detail": image.detail.unwrap_or("auto"),
        "image_url": image.url,
    })
}

/// Returns the text of a result, or the parts of the result if they include more than text.
fn format_result_output(parts: &[Part<'_>]) -> Value {
    match parts {
        [] => json!(""),
        [Part::Text(text)] => json!(text),
        _ => parts.iter().map(format_input_part).collect(),
    }
}
