use super::*;

const OLD: ProtocolVersion = ProtocolVersion::V2025_11_25;
const NEW: ProtocolVersion = ProtocolVersion::V2026_07_28;

fn made(written: &str, version: ProtocolVersion) -> String {
    let raw = RawValue::from_string(written.to_owned()).unwrap();
    let value = serde_json::from_str(written).unwrap();
    let result = as_call_tool_result(raw, value, version).unwrap();
    result.get().to_owned()
}

fn becomes(written: &str, version: ProtocolVersion, expected: &Value) {
    let made: Value = serde_json::from_str(&made(written, version)).unwrap();
    assert_eq!(made, *expected, "{written}");
}

/// Returns content that is one text block.
fn text(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

#[test]
fn a_valid_call_tool_result_is_unchanged() {
    for written in [
        r#"{"content":[]}"#,
        r#"{ "content":[{"type":"text","text":"a","x":1.50}], "isError":false, "n":null }"#,
        r#"{"content":[{"type":"image","data":"aGk=","mimeType":"a/b","annotations":{"priority":1}}]}"#,
        r#"{"content":[{"type":"audio","data":"aG k","mimeType":"a/b"}],"structuredContent":{"a":1e2}}"#,
        r#"{"content":[{"type":"resource","resource":{"uri":"a:b","text":""}}],"_meta":{}}"#,
        r#"{"content":[{"type":"resource_link","uri":"a:b","name":"c","size":18446744073709551617}]}"#,
    ] {
        assert_eq!(made(written, OLD), written);
        assert_eq!(made(written, NEW), written);
    }
    // Results that request input or name a task are not changed.
    for written in [
        r#"{"resultType":"input_required","requestState":"x"}"#,
        r#"{"resultType":"task","taskId":"x"}"#,
    ] {
        assert_eq!(made(written, NEW), written);
    }
}

#[test]
fn any_other_result_becomes_text_and_objects_become_structured_content_too() {
    let failed = r#"{"isError":true,"message":"no"}"#;
    for version in [OLD, NEW] {
        let bare = r#"{"total": 15, "n": 1.50}"#;
        assert_eq!(
            made(bare, version),
            r#"{"content":[{"type":"text","text":"{\"total\": 15, \"n\": 1.50}"}],"structuredContent":{"total": 15, "n": 1.50}}"#
        );
        for written in [r#""a \"b\"""#, "15", "[1,2]", "true"] {
            becomes(written, version, &json!({"content": text(written)}));
        }
        let structured = json!({"isError": true, "message": "no"});
        let result =
            json!({"content": text(failed), "isError": true, "structuredContent": structured});
        becomes(failed, version, &result);
        let odd = r#"{"content":"hello"}"#;
        let result = json!({"content": text(odd), "structuredContent": {"content": "hello"}});
        becomes(odd, version, &result);
    }
}

#[test]
fn structured_content_without_text_is_returned_as_text_too() {
    let list = r#"{"structuredContent":[1]}"#;
    for (written, version, expected) in [
        (
            r#"{"structuredContent":{"a":1},"isError":null}"#,
            OLD,
            json!({"structuredContent": {"a": 1}, "content": text(r#"{"a":1}"#)}),
        ),
        (
            list,
            NEW,
            json!({"structuredContent": [1], "content": text("[1]")}),
        ),
        (list, OLD, json!({"content": text("[1]")})),
        (
            r#"{"content":[{"type":"text","text":"one"}],"structuredContent":[1]}"#,
            OLD,
            json!({"content": text("one")}),
        ),
    ] {
        becomes(written, version, &expected);
    }
}

#[test]
fn malformed_blocks_become_text_and_other_blocks_are_unchanged() {
    let good = json!({"type": "text", "text": "good"});
    for (block, expected) in [
        (json!({"type": "hologram", "n": 1}), None),
        (json!({"type": "text"}), None),
        (json!("words"), None),
        (
            json!({"type": "image", "data": "???", "mimeType": "a/b"}),
            None,
        ),
        (json!({"type": "audio", "data": "aGk="}), None),
        (
            json!({"type": "resource", "resource": {"uri": "a:b"}}),
            None,
        ),
        (json!({"type": "resource_link", "name": "a"}), None),
        (
            json!({"type": "text", "text": "a", "annotations": null, "_meta": null}),
            Some(json!({"type": "text", "text": "a"})),
        ),
        (
            json!({"type": "text", "text": "a", "annotations": {"audience": "user", "priority": 1}}),
            Some(json!({"type": "text", "text": "a", "annotations": {"priority": 1}})),
        ),
        (
            json!({"type": "resource_link", "uri": "a:b", "size": "big"}),
            Some(json!({"type": "resource_link", "uri": "a:b", "name": "a:b"})),
        ),
    ] {
        let expected =
            expected.unwrap_or_else(|| json!({"type": "text", "text": block.to_string()}));
        let written = json!({"content": [good, block, good]}).to_string();
        becomes(&written, NEW, &json!({"content": [good, expected, good]}));
    }
}
