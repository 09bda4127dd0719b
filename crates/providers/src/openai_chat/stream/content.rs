use serde_json::{Value, json};

use crate::openai_chat::OpenAiChat;
use crate::{Delta, ModelError, ProviderApi};

/// Adds the content of a delta to the message's `content`. Content is text or a list of parts
/// (Mistral), and a server may send both in one response.
pub(super) fn add(
    content: &mut Value,
    addition: Value,
    deltas: &mut Vec<Delta>,
) -> Result<(), ModelError> {
    match addition {
        Value::String(text) => {
            if !text.is_empty() {
                deltas.push(Delta::Text(text.clone()));
            }
            add_text(content, text)
        }
        Value::Array(parts) => {
            let list = convert_to_list(content)?;
            for part in parts {
                push_deltas(&part, deltas);
                let text = plain_text_part(&part);
                if !text.is_some_and(|text| append_to_last(list, text)) {
                    list.push(part);
                }
            }
            Ok(())
        }
        _ => Err(invalid_content()),
    }
}

fn add_text(content: &mut Value, text: String) -> Result<(), ModelError> {
    match content {
        Value::Null => *content = Value::String(text),
        Value::String(previous_text) => previous_text.push_str(&text),
        Value::Array(_) if text.is_empty() => {}
        Value::Array(list) => {
            if !append_to_last(list, &text) {
                list.push(text_part(&text));
            }
        }
        _ => return Err(invalid_content()),
    }
    Ok(())
}

/// Converts the message's content to a list of parts.
fn convert_to_list(content: &mut Value) -> Result<&mut Vec<Value>, ModelError> {
    if let Value::Null | Value::String(_) = content {
        let parts = match content.take() {
            Value::String(text) if !text.is_empty() => vec![text_part(&text)],
            _ => Vec::new(),
        };
        *content = Value::Array(parts);
    }
    content.as_array_mut().ok_or_else(invalid_content)
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Returns the text of a part that has no members except its text.
fn plain_text_part(part: &Value) -> Option<&str> {
    let members = part.as_object().filter(|members| members.len() == 2)?;
    members.get("type").filter(|kind| *kind == "text")?;
    members.get("text")?.as_str()
}

fn append_to_last(list: &mut [Value], text: &str) -> bool {
    match list.last_mut() {
        Some(last_part) if plain_text_part(last_part).is_some() => {
            if let Value::String(previous_text) = &mut last_part["text"] {
                previous_text.push_str(text);
            }
            true
        }
        _ => false,
    }
}

fn push_deltas(part: &Value, deltas: &mut Vec<Delta>) {
    let mut push = |value: &Value, delta: fn(String) -> Delta| {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            deltas.push(delta(text.to_owned()));
        }
    };
    match part["type"].as_str() {
        Some("text") => push(&part["text"], Delta::Text),
        Some("refusal") => push(&part["refusal"], Delta::Text),
        // Mistral sends thinking as a list of parts.
        Some("thinking") => match &part["thinking"] {
            Value::Array(parts) => parts
                .iter()
                .for_each(|part| push(&part["text"], Delta::Thought)),
            text => push(text, Delta::Thought),
        },
        _ => {}
    }
}

fn invalid_content() -> ModelError {
    OpenAiChat.malformed("the content is neither text nor a list of parts")
}
