use pillion_chat::{ModelError, ModelErrorKind};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, ModelError>;

/// Converts an Anthropic conversation to the format of OpenAI's chat completions, which every model
/// accepts. Thinking blocks are dropped, because other models cannot read them.
///
/// # Errors
/// A part of the conversation is invalid or has no equivalent; the error names its path.
pub(super) fn to_openai(system: Option<&Value>, messages: &[Value]) -> Result<Vec<Value>> {
    let mut openai_messages = Vec::new();
    if let Some(system) = system.filter(|system| !system.is_null()) {
        let text = join_texts(system, "system")?;
        if !text.is_empty() {
            openai_messages.push(json!({"role": "system", "content": text}));
        }
    }
    for (index, message) in messages.iter().enumerate() {
        let path = format!("messages[{index}]");
        match message["role"].as_str() {
            Some("user") => convert_user(message, &path, &mut openai_messages)?,
            Some("assistant") => openai_messages.push(convert_assistant(message, &path)?),
            Some("system") => {
                let text = join_texts(&message["content"], &format!("{path}.content"))?;
                openai_messages.push(json!({"role": "system", "content": text}));
            }
            _ => return Err(invalid_error(&path, "must have the role user or assistant")),
        }
    }
    Ok(openai_messages)
}

/// Converts a user message. The tool results of the message come first.
fn convert_user(message: &Value, path: &str, openai_messages: &mut Vec<Value>) -> Result<()> {
    let mut parts = Vec::new();
    for (block, path) in split_blocks(&message["content"], &format!("{path}.content"))? {
        if block["type"] != "tool_result" {
            parts.push(convert_part(&block, &path)?);
            continue;
        }
        let Some(id) = block["tool_use_id"].as_str() else {
            return Err(invalid_error(&path, "must have a tool_use_id"));
        };
        let mut text = String::new();
        if !block["content"].is_null() {
            for (inner_block, inner_path) in split_blocks(&block["content"], &path)? {
                let part = convert_part(&inner_block, &inner_path)?;
                match part["text"].as_str() {
                    Some(block_text) => text.push_str(block_text),
                    // Most providers accept only text in tool results, so other content is sent as
                    // user content.
                    None => parts.push(part),
                }
            }
        }
        if block["is_error"] == true {
            text = json!({ "error": text }).to_string();
        }
        openai_messages.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
    }
    if !parts.is_empty() {
        openai_messages.push(json!({"role": "user", "content": parts}));
    }
    Ok(())
}

fn convert_assistant(message: &Value, path: &str) -> Result<Value> {
    let mut text = String::new();
    let mut calls = Vec::new();
    for (block, path) in split_blocks(&message["content"], &format!("{path}.content"))? {
        match block["type"].as_str() {
            Some("text") => text.push_str(block["text"].as_str().unwrap_or_default()),
            Some("thinking" | "redacted_thinking") => {}
            Some("tool_use") => {
                let (Some(id), Some(name)) = (block["id"].as_str(), block["name"].as_str()) else {
                    return Err(invalid_error(&path, "must have an id and a name"));
                };
                let arguments = block["input"].to_string();
                let function = json!({"name": name, "arguments": arguments});
                calls.push(json!({"id": id, "type": "function", "function": function}));
            }
            _ => return Err(unsupported_type_error(&path)),
        }
    }
    let mut openai_message = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        openai_message["tool_calls"] = json!(calls);
        if text.is_empty() {
            openai_message["content"] = Value::Null;
        }
    }
    Ok(openai_message)
}

/// Converts a text or image block.
fn convert_part(block: &Value, path: &str) -> Result<Value> {
    let source = &block["source"];
    let member_text = |value: &Value, key: &str| value[key].as_str().map(str::to_owned);
    let image_url = match (block["type"].as_str(), source["type"].as_str()) {
        (Some("text"), _) => {
            let text = member_text(block, "text")
                .ok_or_else(|| invalid_error(path, "must have the string 'text'"))?;
            return Ok(json!({"type": "text", "text": text}));
        }
        (Some("image"), Some("base64")) => member_text(source, "media_type")
            .zip(member_text(source, "data"))
            .map(|(media_type, data)| format!("data:{media_type};base64,{data}")),
        (Some("image"), Some("url")) => member_text(source, "url"),
        _ => return Err(unsupported_type_error(path)),
    };
    let url = image_url.ok_or_else(|| {
        invalid_error(
            path,
            "must have a source with a media_type and data, or with a url",
        )
    })?;
    Ok(json!({"type": "image_url", "image_url": {"url": url}}))
}

/// Returns the text of a string or of text blocks.
fn join_texts(content: &Value, path: &str) -> Result<String> {
    let mut texts = Vec::new();
    for (block, path) in split_blocks(content, path)? {
        match block["text"].as_str() {
            Some(text) => texts.push(text.to_owned()),
            None => return Err(invalid_error(&path, "must be a text block")),
        }
    }
    Ok(texts.join("\n\n"))
}

/// Returns the blocks of a message's content, each with its path. A string counts as one text
/// block.
fn split_blocks(content: &Value, path: &str) -> Result<Vec<(Value, String)>> {
    match content {
        Value::String(text) => {
            let block = json!({"type": "text", "text": text});
            Ok(vec![(block, path.to_owned())])
        }
        Value::Array(blocks) => {
            let to_indexed_block =
                |(index, block): (usize, &Value)| (block.clone(), format!("{path}[{index}]"));
            Ok(blocks.iter().enumerate().map(to_indexed_block).collect())
        }
        _ => Err(invalid_error(
            path,
            "must be a string or an array of blocks",
        )),
    }
}

fn unsupported_type_error(path: &str) -> ModelError {
    invalid_error(
        path,
        "has a type that the model's provider does not support",
    )
}

fn invalid_error(path: &str, problem: &str) -> ModelError {
    ModelError::new(ModelErrorKind::Rejected, format!("{path} {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h4_an_anthropic_conversation_is_converted_to_openai_messages() {
        let system =
            json!([{"type": "text", "text": "Be short."}, {"type": "text", "text": "And kind."}]);
        let messages = [
            json!({"role": "user", "content": [
                {"type": "text", "text": "What is it?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
                {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
            ]}),
            json!({"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "a", "name": "look", "input": {"closely": true}},
                {"type": "tool_use", "id": "b", "name": "ask", "input": {}},
            ]}),
            json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "A cat."},
                {"type": "tool_result", "tool_use_id": "b", "is_error": true,
                 "content": [{"type": "text", "text": "The file is missing."}]},
                {"type": "text", "text": "Well?"},
            ]}),
            json!({"role": "assistant", "content": "A cat."}),
        ];
        let call = |id: &str, name: &str, arguments: &str| {
            json!({"id": id, "type": "function",
                "function": {"name": name, "arguments": arguments}})
        };
        let image = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
        let expected = [
            json!({"role": "system", "content": "Be short.\n\nAnd kind."}),
            json!({"role": "user", "content": [
                {"type": "text", "text": "What is it?"},
                image("data:image/png;base64,QUJD"),
                image("https://example.com/a.png"),
            ]}),
            json!({"role": "assistant", "content": "Let me look.",
                "tool_calls": [call("a", "look", r#"{"closely":true}"#), call("b", "ask", "{}")]}),
            json!({"role": "tool", "tool_call_id": "a", "content": "A cat."}),
            json!({"role": "tool", "tool_call_id": "b", "content": r#"{"error":"The file is missing."}"#}),
            json!({"role": "user", "content": [{"type": "text", "text": "Well?"}]}),
            json!({"role": "assistant", "content": "A cat."}),
        ];
        assert_eq!(to_openai(Some(&system), &messages).unwrap(), expected);
    }

    #[test]
    fn h4_unsupported_content_is_named_in_the_error() {
        for (message, words) in [
            (
                json!({"role": "tool", "content": "x"}),
                "messages[0] must have the role",
            ),
            (
                json!({"role": "user"}),
                "messages[0].content must be a string or an array of blocks",
            ),
            (
                json!({"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "document"}]}),
                "messages[0].content[1] has a type",
            ),
            (
                json!({"role": "user", "content": [{"type": "tool_result"}]}),
                "messages[0].content[0] must have a tool_use_id",
            ),
            (
                json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}),
                "messages[0].content[0] must have an id and a name",
            ),
        ] {
            let error = to_openai(None, std::slice::from_ref(&message)).unwrap_err();
            assert!(error.message.starts_with(words), "{message}: {error}");
        }
    }
}
