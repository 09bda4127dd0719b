//! Converts the response of a server to `tools/call` into a `CallToolResult` that every client can
//! read.

#[cfg(test)]
mod tests;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::entry::{is_audience, is_priority, is_timestamp};
use super::{EntryKind, Feature, ProtocolVersion};

/// Returns the result of a tool as `CallToolResult`. `value` is the result parsed from
/// `raw_result`. A valid `CallToolResult` is returned byte for byte. For any other result, the JSON
/// becomes text content, and an object is also returned as `structuredContent`. A content block
/// that the specification does not define becomes text as well.
///
/// A result is not changed if its `resultType` is `input_required` or `task`.
///
/// # Errors
/// The result cannot be written as JSON.
pub fn as_call_tool_result(
    raw_result: Box<RawValue>,
    mut value: Value,
    version: ProtocolVersion,
) -> Result<Box<RawValue>, serde_json::Error> {
    let Some(result) = value.as_object_mut() else {
        return to_raw_value(&json!({"content": [text_block(raw_result.get())]}));
    };
    let result_type = result.get("resultType").and_then(Value::as_str);
    if matches!(result_type, Some("input_required" | "task")) {
        return Ok(raw_result);
    }
    let mut is_changed = repair_members(result, version);
    if !result.get("content").is_some_and(Value::is_array) {
        let Some(structured_content) = result.get("structuredContent") else {
            return wrap_object(&raw_result, result);
        };
        let content = json!([text_block(&structured_content.to_string())]);
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
        Ok(raw_result)
    }
}

/// Wraps a JSON object that is not a `CallToolResult` in a `CallToolResult`, both as text content
/// and as structured content.
fn wrap_object(
    raw_result: &RawValue,
    result: &Map<String, Value>,
) -> Result<Box<RawValue>, serde_json::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct WrappedResult<'a> {
        content: [Value; 1],
        /// The JSON object that becomes the structured content, as the server wrote it.
        structured_content: &'a RawValue,
        #[serde(skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
    }
    to_raw_value(&WrappedResult {
        content: [text_block(raw_result.get())],
        structured_content: raw_result,
        is_error: result.get("isError").and_then(Value::as_bool),
    })
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Removes members, except `content`, that violate the schema of `CallToolResult`. Returns whether
/// any member was removed.
fn repair_members(result: &mut Map<String, Value>, version: ProtocolVersion) -> bool {
    let allows_any_type = version.supports(Feature::AnyStructuredContent);
    let is_allowed = |value: &Value| allows_any_type || value.is_object();
    // A `structuredContent` that the revision does not allow is removed below, so if `content` is
    // empty, the value is first copied to `content` as text.
    let has_no_content = matches!(result.get("content"), None | Some(Value::Null))
        || result["content"].as_array().is_some_and(Vec::is_empty);
    let content = result
        .get("structuredContent")
        .filter(|value| has_no_content && !is_allowed(value) && !value.is_null())
        .map(|value| json!([text_block(&value.to_string())]));
    if let Some(content) = content {
        result.insert("content".to_owned(), content);
    }
    let mut is_changed = remove_unless(result, "structuredContent", is_allowed);
    is_changed |= remove_unless(result, "isError", Value::is_boolean);
    is_changed |= remove_unless(result, "_meta", Value::is_object);
    is_changed
}

/// Repairs a content block, or converts the block to text. Returns whether the block was changed.
fn repair_block(block: &mut Value) -> bool {
    let block_type = block.get("type").and_then(Value::as_str);
    if block_type == Some("resource_link") {
        return repair_link(block);
    }
    let has_text = |object: &Value, member: &str| object.get(member).is_some_and(Value::is_string);
    let is_readable = match block_type {
        Some("text") => has_text(block, "text"),
        Some("image" | "audio") => {
            has_text(block, "mimeType") && block.get("data").is_some_and(is_base64)
        }
        Some("resource") => block.get("resource").is_some_and(|resource| {
            let has_contents =
                has_text(resource, "text") || resource.get("blob").is_some_and(is_base64);
            has_text(resource, "uri") && has_contents
        }),
        _ => false,
    };
    let Some(members) = block.as_object_mut().filter(|_| is_readable) else {
        *block = text_block(&block.to_string());
        return true;
    };
    let mut is_changed = remove_unless(members, "_meta", Value::is_object);
    is_changed |= remove_unless(members, "annotations", Value::is_object);
    if let Some(Value::Object(annotations)) = members.get_mut("annotations") {
        is_changed |= remove_unless(annotations, "audience", is_audience);
        is_changed |= remove_unless(annotations, "priority", is_priority);
        is_changed |= remove_unless(annotations, "lastModified", is_timestamp);
    }
    if let Some(Value::Object(resource)) = members.get_mut("resource") {
        is_changed |= remove_unless(resource, "mimeType", Value::is_string);
        is_changed |= remove_unless(resource, "_meta", Value::is_object);
    }
    is_changed
}

/// Repairs a `resource_link` block, which has the members of an entry of `resources/list` and a
/// `type`.
fn repair_link(block: &mut Value) -> bool {
    let checked_link = to_raw_value(block)
        .ok()
        .and_then(|link| Some((EntryKind::Resource.check(&link).ok()?, link)));
    let repaired_link = match checked_link {
        Some((checked, link)) if checked.entry.get() == link.get() => return false,
        Some((checked, _)) => serde_json::from_str(checked.entry.get()).ok(),
        None => None,
    };
    *block = repaired_link.unwrap_or_else(|| text_block(&block.to_string()));
    true
}

/// Removes a member whose value `is_valid` rejects. Returns whether the member was removed.
fn remove_unless(
    members: &mut Map<String, Value>,
    member: &str,
    is_valid: impl FnOnce(&Value) -> bool,
) -> bool {
    let is_removed = members.get(member).is_some_and(|value| !is_valid(value));
    if is_removed {
        members.shift_remove(member);
    }
    is_removed
}

/// Returns whether a value is a base64 string, with or without padding.
fn is_base64(value: &Value) -> bool {
    let Some(text) = value.as_str() else {
        return false;
    };
    let trimmed_text = text.trim_ascii_end();
    let digits = trimmed_text.trim_end_matches('=');
    let padding_len = trimmed_text.len() - digits.len();
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let space_count = digits.bytes().filter(u8::is_ascii_whitespace).count();
    let has_valid_padding =
        padding_len == 0 || (padding_len <= 2 && (trimmed_text.len() - space_count) % 4 == 0);
    has_valid_padding
        && (digits.len() - space_count) % 4 != 1
        && digits
            .bytes()
            .all(|byte| is_digit(byte) || byte.is_ascii_whitespace())
}
