use serde_json::Value;

use crate::registry::RegisteredTool;
use crate::tool::{ToolFailure, ToolOutput};

/// Rejects an output larger than `limit` bytes as JSON. A later stage would otherwise truncate it
/// without an explanation.
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

/// Returns the size of an output: the result and the data.
pub(super) fn size(output: &ToolOutput) -> usize {
    json_len(&output.result) + output.data.as_ref().map_or(0, json_len)
}

/// Truncates a text to at most `most` bytes, at a character boundary.
pub(super) fn truncate(text: &mut String, most: usize) {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

/// Returns the approximate size of `value` as JSON, in bytes, without serializing it. Escaped
/// characters count as one character.
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
