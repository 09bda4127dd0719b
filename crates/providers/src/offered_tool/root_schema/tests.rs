use serde_json::json;

use super::*;

#[test]
fn alternatives_become_one_object_and_a_note() {
    let content = json!({"properties": {"content": {"type": "string"}}, "required": ["content"]});
    let url = json!({"properties": {"url": {"type": "string"}, "title": {"type": "string"}}, "required": ["url", "title"]});
    for keyword in ["anyOf", "oneOf"] {
        let schema = json!({"type": "object", keyword: [content, url], "description": "d"});
        let (simplified, note) = simplify_root(&schema);
        assert_eq!(
            *simplified,
            json!({"type": "object", "description": "d", "required": [], "properties": {
                "content": {"type": "string"}, "url": {"type": "string"}, "title": {"type": "string"},
            }})
        );
        assert_eq!(
            note.as_deref(),
            Some("Required: `content`, or `url` and `title`.")
        );
    }
}

#[test]
fn what_all_alternatives_require_is_required() {
    let schema = json!({
        "type": "object",
        "properties": {"id": {"type": "string"}},
        "allOf": [
            {"required": ["id"]},
            {"if": {"required": ["id"]}, "then": {"required": ["x"]}},
            {"anyOf": [
                {"properties": {"kind": {"const": "a"}}, "required": ["kind", "a"]},
                {"properties": {"kind": {"const": "b"}}, "required": ["kind"]},
            ]},
        ],
        "not": {"required": ["z"]},
    });
    let (simplified, note) = simplify_root(&schema);
    assert_eq!(
        *simplified,
        json!({"type": "object", "required": ["id", "kind"], "properties": {
            "id": {"type": "string"},
            "kind": {"anyOf": [{"const": "a"}, {"const": "b"}]},
        }})
    );
    assert_eq!(note, None);
}

#[test]
fn references_are_followed_once() {
    let schema = json!({
        "type": "object",
        "anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}, {"$ref": "#"}, {"$ref": "https://x"}],
        "$defs": {"a": {"properties": {"a": {"$ref": "#/$defs/b"}}}, "b": {"type": "string"}},
    });
    let (simplified, _) = simplify_root(&schema);
    assert_eq!(
        simplified["properties"],
        json!({"a": {"$ref": "#/$defs/b"}})
    );
    assert_eq!(simplified["$defs"], schema["$defs"]);
}

#[test]
fn another_schema_is_unchanged() {
    let schema = json!({"type": "object", "properties": {"a": {"anyOf": [{}, {}]}}});
    let (simplified, note) = simplify_root(&schema);
    assert!(matches!(simplified, Cow::Borrowed(_)) && note.is_none());
}
