//! Extracts what a model reads of a result.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::media::{self, ResultPart};

/// Returns what a model reads of a tool's result. For an MCP result (`CallToolResult`) with only
/// text blocks, returns their text, one block per line. For an MCP result with images, audio or
/// resources, returns the text of its blocks, with a marker in place of encoded data. For an MCP
/// result without blocks, returns its structured content. Returns any other result unchanged,
/// except that markers replace encoded data. An object with members that a `CallToolResult` does
/// not have is not treated as an MCP result.
pub(crate) fn extract_reading(result: &Value) -> Cow<'_, Value> {
    if let Some(parts) = parse_parts(result) {
        let texts = parts.into_iter().map(|part| match part {
            ResultPart::Text(text) => text,
            ResultPart::Media(media) => media.marker().into(),
        });
        return Cow::Owned(texts.collect::<Vec<_>>().join("\n").into());
    }
    let envelope = result.as_object().filter(|map| is_call_tool_result(map));
    let text = envelope.and_then(text_blocks);
    text.unwrap_or_else(|| media::replace_data(result))
}

/// Returns the parts of an MCP result with images, audio or resources; `None` for any other result.
pub(super) fn parse_parts(result: &Value) -> Option<Vec<ResultPart<'_>>> {
    let envelope = result.as_object().filter(|map| is_call_tool_result(map))?;
    let blocks = envelope.get("content")?.as_array()?;
    media::parse_parts(blocks, structured_content(envelope))
}

fn structured_content(envelope: &Map<String, Value>) -> Option<&Value> {
    let content = envelope.get("structuredContent");
    content.filter(|content| !content.is_null())
}

/// The members of a `CallToolResult` (MCP 2025-11-25), and `resultType`, which every result has
/// since 2026-07-28.
const RESULT_MEMBERS: [&str; 5] = [
    "content",
    "structuredContent",
    "isError",
    "_meta",
    "resultType",
];

fn is_call_tool_result(result: &Map<String, Value>) -> bool {
    let is_known = |name: &String| RESULT_MEMBERS.contains(&name.as_str());
    // An object with neither `content` nor `structuredContent` is not treated as an MCP result,
    // because results of other tools may have members such as `_meta`, too.
    let is_mcp = result.contains_key("content") || result.contains_key("structuredContent");
    is_mcp && result.keys().all(is_known)
}

/// Returns the text of the blocks, or the structured content if there are no blocks. `None` if any
/// block is not text.
fn text_blocks(envelope: &Map<String, Value>) -> Option<Cow<'_, Value>> {
    let blocks = match envelope.get("content") {
        Some(content) => content.as_array()?.as_slice(),
        None => &[],
    };
    if blocks.is_empty() {
        let structured_content = structured_content(envelope).map(media::replace_data);
        return Some(structured_content.unwrap_or_else(|| Cow::Owned("".into())));
    }
    let texts: Option<Vec<_>> = blocks.iter().map(block_text).collect();
    Some(Cow::Owned(texts?.join("\n").into()))
}

pub(super) fn block_text(block: &Value) -> Option<&str> {
    let is_text = block.get("type")? == "text";
    block.get("text")?.as_str().filter(|_| is_text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn e10_text_content_is_returned_as_text() {
        let block = |text: &str| json!({"type": "text", "text": text, "annotations": {}});
        let result = json!({
            "content": [block("one"), block("two")],
            "structuredContent": {"a": 1}, "isError": false, "_meta": {}, "resultType": "complete",
        });
        assert_eq!(*extract_reading(&result), "one\ntwo");
    }

    #[test]
    fn e10_structured_content_is_used_without_blocks() {
        for result in [
            json!({"content": [], "structuredContent": {"a": 1.0}}),
            json!({"structuredContent": {"a": 1.0}}),
        ] {
            assert_eq!(*extract_reading(&result), json!({"a": 1.0}));
        }
        let flag = json!({"structuredContent": false, "content": []});
        assert_eq!(*extract_reading(&flag), false);
        for nothing in [
            json!({"content": []}),
            json!({"content": [], "structuredContent": null}),
        ] {
            assert_eq!(*extract_reading(&nothing), "");
        }
    }

    #[test]
    fn e10_any_other_result_is_unchanged() {
        let text = json!({"type": "text", "text": "a"});
        for result in [
            json!({"content": [{"type": "text", "text": 1}]}),
            json!({"content": [{"type": "resource", "text": "a"}]}),
            json!({"content": [text], "sources": ["a"]}),
            json!({"content": text}),
            json!({"content": "a"}),
            json!({"content": null}),
            json!({"isError": false}),
            json!({}),
            json!([text]),
            json!("a"),
            json!({"total": 15, "rolls": [15]}),
        ] {
            assert_eq!(*extract_reading(&result), result);
        }
    }
}
