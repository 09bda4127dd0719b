//! Formats results of MCP servers as text.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::plain;

/// Returns a tool's result as text: its content, then its structured content unless the content
/// repeats it. A result of an unknown form is shown as JSON.
pub(super) fn tool_result_text(result: &Value) -> String {
    let blocks: Vec<_> = result["content"].as_array().into_iter().flatten().collect();
    let structured_content = result
        .get("structuredContent")
        .filter(|value| !value.is_null());
    if blocks.is_empty() && structured_content.is_none() && result.get("content").is_none() {
        return pretty(result);
    }
    let structured = structured_content.filter(|structured| match wrapped_value(structured) {
        Some(value) => !blocks.iter().any(|block| contains_value(block, value)),
        None => true,
    });
    let repeats =
        |block: &&Value| structured.is_some_and(|structured| contains_value(block, structured));
    blocks
        .iter()
        .filter(|block| !repeats(block))
        .map(|block| block_text(block))
        .chain(structured.map(pretty))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the value that some servers wrap in an object and also repeat as text: before revision
/// 2026-07-28, structured content had to be an object.
fn wrapped_value(structured: &Value) -> Option<&Value> {
    let object = structured.as_object().filter(|object| object.len() == 1)?;
    object.get("result")
}

/// Returns whether a text block contains `value` as JSON or text.
fn contains_value(block: &Value, value: &Value) -> bool {
    let text = block["text"].as_str().unwrap_or_default();
    value == text || serde_json::from_str::<Value>(text).is_ok_and(|json| json == *value)
}

/// Returns a content block as text (MCP 2025-11-25, `ContentBlock`).
pub(super) fn block_text(block: &Value) -> String {
    let text = |key: &str| block[key].as_str().unwrap_or_default();
    let kind = text("type");
    match kind {
        "text" => plain::text(text("text")),
        "image" | "audio" => {
            let bytes = decoded_size(text("data"));
            format!(
                "[{kind} {}, {bytes} bytes]",
                plain::one_line(text("mimeType"))
            )
        }
        "resource_link" => {
            let name = plain::one_line(text("name"));
            format!("[resource {} {name}]", plain::one_line(text("uri")))
        }
        "resource" => {
            let resource = &block["resource"];
            let uri = plain::one_line(resource["uri"].as_str().unwrap_or_default());
            format!("[resource {uri}]\n{}", resource_text(resource))
        }
        _ => plain::text(&block.to_string()),
    }
}

/// Returns the contents of a resource as text (`TextResourceContents`, `BlobResourceContents`).
pub(super) fn resource_text(contents: &Value) -> String {
    if let Some(text) = contents["text"].as_str() {
        return plain::text(text);
    }
    let mime = contents["mimeType"]
        .as_str()
        .unwrap_or("application/octet-stream");
    let bytes = decoded_size(contents["blob"].as_str().unwrap_or_default());
    format!("[{}, {bytes} bytes]", plain::one_line(mime))
}

/// Returns the bytes of a resource, if it has any.
pub(super) fn decode_bytes(contents: &Value) -> Option<Vec<u8>> {
    if let Some(text) = contents["text"].as_str() {
        return Some(text.as_bytes().to_vec());
    }
    BASE64_STANDARD.decode(contents["blob"].as_str()?).ok()
}

pub(super) fn pretty(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value);
    plain::text(&text.unwrap_or_default())
}

/// Returns the decoded size of Base64 data, in bytes.
fn decoded_size(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn structured_content_is_shown_once() {
        let result = json!({
            "content": [{"type": "text", "text": "{\"a\":1}"}],
            "structuredContent": {"a": 1},
        });
        assert_eq!(tool_result_text(&result), "{\n  \"a\": 1\n}");
        let result = json!({
            "content": [{"type": "text", "text": "one"}],
            "structuredContent": {"a": 1},
        });
        assert_eq!(tool_result_text(&result), "one\n{\n  \"a\": 1\n}");
        let result = json!({
            "content": [{"type": "text", "text": "3"}], "structuredContent": {"result": 3},
        });
        assert_eq!(tool_result_text(&result), "3");
    }

    #[test]
    fn content_other_than_text_is_summarized() {
        let result = json!({"content": [
            {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            {"type": "resource_link", "uri": "file:///x", "name": "x"},
            {"type": "resource", "resource": {"uri": "a://b", "text": "hi"}},
            {"type": "resource", "resource": {"uri": "a://c", "mimeType": "x/y", "blob": "AAA="}},
            {"type": "new", "n": 1},
        ]});
        assert_eq!(
            tool_result_text(&result),
            "[image image/png, 3 bytes]\n[resource file:///x x]\n[resource a://b]\nhi\n\
             [resource a://c]\n[x/y, 2 bytes]\n{\"type\":\"new\",\"n\":1}"
        );
        assert_eq!(tool_result_text(&json!({"content": []})), "");
        assert_eq!(
            tool_result_text(&json!({"total": 15})),
            "{\n  \"total\": 15\n}"
        );
    }
}
