//! Formats results of MCP servers as text.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::plain;

/// Returns a tool's result as text: the content blocks, followed by the structured content. A value
/// that is in both is shown once. A result of an unknown form is shown as JSON.
pub(super) fn format_tool_result(result: &Value) -> String {
    let blocks: Vec<_> = result["content"].as_array().into_iter().flatten().collect();
    let structured_content = result
        .get("structuredContent")
        .filter(|value| !value.is_null());
    if blocks.is_empty() && structured_content.is_none() && result.get("content").is_none() {
        return to_pretty_json(result);
    }
    let shown_content = structured_content.filter(|content| match find_wrapped_value(content) {
        Some(value) => !blocks.iter().any(|block| contains_value(block, value)),
        None => true,
    });
    let is_repetition =
        |block: &&Value| shown_content.is_some_and(|content| contains_value(block, content));
    blocks
        .iter()
        .filter(|block| !is_repetition(block))
        .map(|block| format_block(block))
        .chain(shown_content.map(to_pretty_json))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the value inside structured content that is an object with the single member `result`.
/// Some servers wrap a value in such an object, and also repeat the value as text, because before
/// revision 2026-07-28, structured content had to be an object.
fn find_wrapped_value(structured_content: &Value) -> Option<&Value> {
    let object = structured_content.as_object()?;
    object.get("result").filter(|_| object.len() == 1)
}

/// Returns whether a text block contains `value` as JSON or text.
fn contains_value(block: &Value, value: &Value) -> bool {
    let text = block["text"].as_str().unwrap_or_default();
    value == text || serde_json::from_str::<Value>(text).is_ok_and(|json| json == *value)
}

/// Returns a content block as text (MCP 2025-11-25, `ContentBlock`).
pub(super) fn format_block(block: &Value) -> String {
    let text_member = |key: &str| block[key].as_str().unwrap_or_default();
    let kind = text_member("type");
    match kind {
        "text" => plain::escape(text_member("text")),
        "image" | "audio" => {
            let byte_count = compute_decoded_size(text_member("data"));
            let mime_type = plain::to_one_line(text_member("mimeType"));
            format!("[{kind} {mime_type}, {byte_count} bytes]")
        }
        "resource_link" => {
            let name = plain::to_one_line(text_member("name"));
            let uri = plain::to_one_line(text_member("uri"));
            format!("[resource {uri} {name}]")
        }
        "resource" => {
            let resource = &block["resource"];
            let uri = plain::to_one_line(resource["uri"].as_str().unwrap_or_default());
            format!("[resource {uri}]\n{}", format_resource(resource))
        }
        _ => plain::escape(&block.to_string()),
    }
}

/// Returns the contents of a resource as text (`TextResourceContents`, `BlobResourceContents`).
pub(super) fn format_resource(contents: &Value) -> String {
    if let Some(text) = contents["text"].as_str() {
        return plain::escape(text);
    }
    let mime_type = contents["mimeType"].as_str();
    let shown_type = plain::to_one_line(mime_type.unwrap_or("application/octet-stream"));
    let byte_count = compute_decoded_size(contents["blob"].as_str().unwrap_or_default());
    format!("[{shown_type}, {byte_count} bytes]")
}

/// Returns the bytes of a resource, if it has any.
pub(super) fn decode_bytes(contents: &Value) -> Option<Vec<u8>> {
    if let Some(text) = contents["text"].as_str() {
        return Some(text.as_bytes().to_vec());
    }
    BASE64_STANDARD.decode(contents["blob"].as_str()?).ok()
}

pub(super) fn to_pretty_json(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value);
    plain::escape(&text.unwrap_or_default())
}

/// Returns the decoded size of Base64 data, in bytes.
fn compute_decoded_size(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn structured_content_is_shown_once() {
        let repeated_content = json!({
            "content": [{"type": "text", "text": "{\"a\":1}"}],
            "structuredContent": {"a": 1},
        });
        assert_eq!(format_tool_result(&repeated_content), "{\n  \"a\": 1\n}");
        let separate_content = json!({
            "content": [{"type": "text", "text": "one"}],
            "structuredContent": {"a": 1},
        });
        let text = format_tool_result(&separate_content);
        assert_eq!(text, "one\n{\n  \"a\": 1\n}");
        let wrapped_content = json!({
            "content": [{"type": "text", "text": "3"}], "structuredContent": {"result": 3},
        });
        assert_eq!(format_tool_result(&wrapped_content), "3");
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
            format_tool_result(&result),
            "[image image/png, 3 bytes]\n[resource file:///x x]\n[resource a://b]\nhi\n\
             [resource a://c]\n[x/y, 2 bytes]\n{\"type\":\"new\",\"n\":1}"
        );
        assert_eq!(format_tool_result(&json!({"content": []})), "");
        assert_eq!(
            format_tool_result(&json!({"total": 15})),
            "{\n  \"total\": 15\n}"
        );
    }
}
