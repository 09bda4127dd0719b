//! Converts the response of a server to `tools/call` into a `CallToolResult` that every client can
//! read.

#[cfg(test)]
mod tests;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::entry::{is_audience, is_priority, is_timestamp};
use super::{EntryKind, Feature, ProtocolVersion};

/// Returns the result of a tool as `CallToolResult`. `value` is the result parsed from `written`. A
/// valid `CallToolResult` is returned byte for byte. For any other result, the JSON becomes text
/// content, and an object is also returned as `structuredContent`. A content block that the
/// specification does not define becomes text as well.
///
/// A result whose `resultType` requests input or names a task is not changed.
///
/// # Errors
/// The result cannot be written as JSON.
pub fn as_call_tool_result(
    written: Box<RawValue>,
    mut value: Value,
    version: ProtocolVersion,
) -> Result<Box<RawValue>, serde_json::Error> {
    let Some(result) = value.as_object_mut() else {
        return to_raw_value(&json!({"content": [text(written.get())]}));
    };
    let kind = result.get("resultType").and_then(Value::as_str);
    if matches!(kind, Some("input_required" | "task")) {
        return Ok(written);
    }
    let mut is_changed = repair_members(result, version);
    if !result.get("content").is_some_and(Value::is_array) {
        let Some(structured) = result.get("structuredContent") else {
            return wrapped(&written, result);
        };
        let content = json!([text(&structured.to_string())]);
        result.insert("content".to_owned(), content);
        is_changed = true;
    }
    if let Some(Value::Array(blocks)) = result.get_mut("content") {
        for block in blocks {
            is_changed |= repair_block(block);
        }
    }
    if is_changed {
        to_raw_value(&value)
    } else {
        Ok(written)
    }
}

/// Wraps a JSON object that is not a `CallToolResult`: as text content and as structured content.
fn wrapped(
    written: &RawValue,
    result: &Map<String, Value>,
) -> Result<Box<RawValue>, serde_json::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Wrapped<'a> {
        content: [Value; 1],
        /// The JSON object, as the server wrote it.
        structured_content: &'a RawValue,
        #[serde(skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
    }
    to_raw_value(&Wrapped {
        content: [text(written.get())],
        structured_content: written,
        is_error: result.get("isError").and_then(Value::as_bool),
    })
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Removes members, except `content`, that violate the schema of `CallToolResult`. Returns whether
/// any member was removed.
fn repair_members(result: &mut Map<String, Value>, version: ProtocolVersion) -> bool {
    let takes_any = version.supports(Feature::AnyStructuredContent);
    let structured = result
        .get("structuredContent")
        .filter(|structured| !takes_any && !structured.is_object());
    // A client that reads only `content` would lose the structured value.
    let is_empty = matches!(result.get("content"), None | Some(Value::Null))
        || result["content"].as_array().is_some_and(Vec::is_empty);
    let content = structured.filter(|structured| is_empty && !structured.is_null());
    if let Some(content) = content.map(|structured| json!([text(&structured.to_string())])) {
        result.insert("content".to_owned(), content);
    }
    [
        keep_if(result, "structuredContent", |it| {
            takes_any || it.is_object()
        }),
        keep_if(result, "isError", Value::is_boolean),
        keep_if(result, "_meta", Value::is_object),
    ]
    .contains(&true)
}

/// Repairs a content block, or converts the block to text. Returns whether the block was changed.
fn repair_block(block: &mut Value) -> bool {
    let kind = block.get("type").and_then(Value::as_str);
    if kind == Some("resource_link") {
        return repair_link(block);
    }
    let is_text = |block: &Value, member: &str| block.get(member).is_some_and(Value::is_string);
    let is_readable = match kind {
        Some("text") => is_text(block, "text"),
        Some("image" | "audio") => {
            is_text(block, "mimeType") && block.get("data").is_some_and(is_base64)
        }
        Some("resource") => block.get("resource").is_some_and(|resource| {
            let has_contents =
                is_text(resource, "text") || resource.get("blob").is_some_and(is_base64);
            is_text(resource, "uri") && has_contents
        }),
        _ => false,
    };
    let Some(members) = block.as_object_mut().filter(|_| is_readable) else {
        *block = text(&block.to_string());
        return true;
    };
    let mut is_changed = keep_if(members, "_meta", Value::is_object);
    is_changed |= keep_if(members, "annotations", Value::is_object);
    if let Some(Value::Object(annotations)) = members.get_mut("annotations") {
        is_changed |= keep_if(annotations, "audience", is_audience);
        is_changed |= keep_if(annotations, "priority", is_priority);
        is_changed |= keep_if(annotations, "lastModified", is_timestamp);
    }
    if let Some(Value::Object(resource)) = members.get_mut("resource") {
        is_changed |= keep_if(resource, "mimeType", Value::is_string);
        is_changed |= keep_if(resource, "_meta", Value::is_object);
    }
    is_changed
}

/// Repairs a `resource_link` block: an entry of `resources/list` with a `type`.
fn repair_link(block: &mut Value) -> bool {
    let checked = to_raw_value(block)
        .ok()
        .and_then(|link| Some((EntryKind::Resource.check(&link).ok()?, link)));
    let repaired = match checked {
        Some((checked, link)) if checked.entry.get() == link.get() => return false,
        Some((checked, _)) => serde_json::from_str(checked.entry.get()).ok(),
        None => None,
    };
    *block = repaired.unwrap_or_else(|| text(&block.to_string()));
    true
}

/// Removes a member whose value `fits` rejects. Returns whether the member was removed.
fn keep_if(
    members: &mut Map<String, Value>,
    member: &str,
    fits: impl FnOnce(&Value) -> bool,
) -> bool {
    let removes = members.get(member).is_some_and(|value| !fits(value));
    if removes {
        members.shift_remove(member);
    }
    removes
}

/// Returns whether a value is a base64 string, with or without padding.
fn is_base64(value: &Value) -> bool {
    let Some(text) = value.as_str() else {
        return false;
    };
    let text = text.trim_ascii_end();
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let spaces = digits.bytes().filter(u8::is_ascii_whitespace).count();
    let is_padded = padding == 0 || (padding <= 2 && (text.len() - spaces) % 4 == 0);
    is_padded
        && (digits.len() - spaces) % 4 != 1
        && digits
            .bytes()
            .all(|byte| is_digit(byte) || byte.is_ascii_whitespace())
}
