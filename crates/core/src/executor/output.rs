use serde_json::Value;

use crate::registry::RegisteredTool;
use crate::tool::{ToolFailure, ToolOutput};

/// Refuses an output that is larger than `limit` bytes as JSON: it would be cut off
/// somewhere later, where nobody could say why.
pub(super) fn cap(
    tool: &RegisteredTool,
    output: ToolOutput,
    limit: usize,
) -> Result<ToolOutput, ToolFailure> {
    let size = size(&output);
    if size > limit {
        return Err(ToolFailure::internal(format!(
            "Tool '{}' returned {size} bytes; the limit is {limit}",
            tool.name()
        )));
    }
    Ok(output)
}

/// How large an output is: what the model and programs read of it.
pub(super) fn size(output: &ToolOutput) -> usize {
    json_len(&output.result) + output.data.as_ref().map_or(0, json_len)
}

/// Cuts a text that is longer than `most` bytes, between characters.
pub(super) fn truncate(text: &mut String, most: usize) {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

/// How long `value` is as JSON, without writing it. Characters that JSON escapes count as
/// they are, so that this stays cheap; the limit is no exact science.
pub(super) fn json_len(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| json_len(item) + 1).sum::<usize>(),
        Value::Object(entries) => {
            2 + entries
                .iter()
                .map(|(key, value)| key.len() + json_len(value) + 4)
                .sum::<usize>()
        }
    }
}
