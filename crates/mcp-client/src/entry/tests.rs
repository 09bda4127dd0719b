use serde_json::json;
use serde_json::value::to_raw_value;

use super::*;

fn check(kind: EntryKind, entry: &Value) -> Result<(Value, Vec<String>), String> {
    let raw = to_raw_value(entry).unwrap();
    let checked = kind.check(&raw).map_err(|error| error.to_string())?;
    let entry = serde_json::from_str(checked.entry.get()).unwrap();
    Ok((entry, checked.repairs))
}

#[expect(clippy::needless_pass_by_value, reason = "callers pass literals")]
fn tool(input_schema: Value) -> Value {
    json!({"name": "a", "inputSchema": input_schema})
}

/// Asserts the repaired entry, and the names of the repaired members.
#[expect(clippy::needless_pass_by_value, reason = "callers pass literals")]
fn becomes(kind: EntryKind, entry: Value, expected: Value, named: &[&str]) {
    let (checked, repairs) = check(kind, &entry).unwrap();
    assert_eq!(checked, expected, "{entry}");
    assert_eq!(repairs.len(), named.len(), "{repairs:?}");
    for (repair, name) in repairs.iter().zip(named) {
        assert!(repair.starts_with(&format!("`{name}`")), "{repair}");
    }
}

#[test]
fn a_valid_entry_is_unchanged() {
    for (kind, text) in [
        (
            EntryKind::Tool,
            r#"{ "name":"a", "n":1.50, "inputSchema":{"type":"object","required":[]},
                "outputSchema":{"type":"array"}, "annotations":{"readOnlyHint":true}, "x":null}"#,
        ),
        (
            EntryKind::Resource,
            r#"{"uri":"memo://for/Ada","name":"a","size":1e3,"icons":[{"src":"a:b","sizes":["any"]}]}"#,
        ),
        (
            EntryKind::ResourceTemplate,
            r#"{"uriTemplate":"a{b}","name":""}"#,
        ),
        (
            EntryKind::Prompt,
            r#"{"name":"a","arguments":[{"name":"b","required":true}]}"#,
        ),
    ] {
        let raw = RawValue::from_string(text.to_owned()).unwrap();
        let checked = kind.check(&raw).unwrap();
        assert_eq!(checked.entry.get(), text);
        assert!(checked.repairs.is_empty(), "{:?}", checked.repairs);
    }
}

#[test]
fn malformed_descriptive_members_are_removed() {
    let schema = json!({"type": "object"});
    becomes(
        EntryKind::Tool,
        json!({"name": "a", "description": 5, "title": null, "inputSchema": schema, "_meta": [],
            "annotations": {"readOnlyHint": "yes", "idempotentHint": true, "title": null},
            "execution": {"taskSupport": "often"}, "icons": [{"src": 1}, {"src": "a:b", "theme": "x"}]}),
        json!({"name": "a", "inputSchema": schema, "annotations": {"idempotentHint": true},
            "execution": {}, "icons": [{"src": "a:b"}]}),
        &[
            "annotations.readOnlyHint",
            "execution.taskSupport",
            "description",
            "icons[0]",
            "icons[1].theme",
            "_meta",
        ],
    );
    becomes(
        EntryKind::Resource,
        json!({"uri": "a:b", "name": "b", "mimeType": 7, "size": 1.5, "annotations": {
            "audience": ["user", "robot"], "priority": 2, "lastModified": "yesterday"}}),
        json!({"uri": "a:b", "name": "b", "annotations": {}}),
        &[
            "size",
            "mimeType",
            "annotations.audience",
            "annotations.priority",
            "annotations.lastModified",
        ],
    );
    becomes(
        EntryKind::Prompt,
        json!({"name": "a", "icons": {}, "arguments": [{"name": "b", "description": 1, "required": null}]}),
        json!({"name": "a", "arguments": [{"name": "b"}]}),
        &["arguments[0].description", "icons"],
    );
    becomes(
        EntryKind::Prompt,
        json!({"name": "a", "arguments": null}),
        json!({"name": "a"}),
        &[],
    );
}

#[test]
fn a_resource_without_a_name_is_named_after_its_title_or_its_uri() {
    becomes(
        EntryKind::Resource,
        json!({"uri": "a:b", "name": 7}),
        json!({"uri": "a:b", "name": "a:b"}),
        &["name"],
    );
    becomes(
        EntryKind::ResourceTemplate,
        json!({"uriTemplate": "a:{b}", "title": "T", "mimeType": 1}),
        json!({"uriTemplate": "a:{b}", "title": "T", "name": "T"}),
        &["name", "mimeType"],
    );
}

#[test]
fn an_input_schema_becomes_an_object_schema_if_possible() {
    let empty = json!({"type": "object", "properties": {}});
    for (schema, expected, repairs) in [
        (Value::Null, empty.clone(), 1),
        (json!([]), empty.clone(), 1),
        (json!(true), empty, 1),
        (json!({}), json!({"type": "object"}), 0),
        (
            json!({"type": ["object", "null"], "properties": [], "required": null, "$schema": 1}),
            json!({"type": "object", "properties": {}}),
            1,
        ),
        (
            json!({"type": "object", "properties": {"a": true, "b": false, "c": [], "d": {}}}),
            json!({"type": "object", "properties": {"a": {}, "b": {"not": {}}, "c": {}, "d": {}}}),
            0,
        ),
    ] {
        let (tool, reported) = check(EntryKind::Tool, &tool(schema)).unwrap();
        assert_eq!(tool["inputSchema"], expected);
        assert_eq!(reported.len(), repairs, "{reported:?}");
    }
    let (tool, _) = check(EntryKind::Tool, &json!({"name": "a"})).unwrap();
    assert_eq!(tool["inputSchema"]["type"], "object");
}

#[test]
fn a_schema_is_repaired_at_every_depth() {
    let written = json!({"type": "object", "properties": {
        "rows": {"type": "array", "items": {"type": "object", "properties": [], "required": {}}},
        "any": {"anyOf": [{"type": "object", "additionalProperties": []}, {"type": "null"}]},
        "n": {"type": "number", "nullable": true, "default": []},
        "gone": null,
    }, "$defs": [], "required": {}});
    let expected = json!({"type": "object", "properties": {
        "rows": {"type": "array", "items": {"type": "object", "properties": {}, "required": []}},
        "any": {"anyOf": [{"type": "object", "additionalProperties": {}}, {"type": "null"}]},
        "n": {"type": ["number", "null"], "default": []},
        "gone": {},
    }, "$defs": {}, "required": []});
    becomes(
        EntryKind::Tool,
        json!({"name": "a", "inputSchema": written, "outputSchema": written}),
        json!({"name": "a", "inputSchema": expected, "outputSchema": expected}),
        &[],
    );
    let gaps = json!({"type": "object", "required": {"0": "a", "2": "b"}});
    let expected = json!({"type": "object", "required": ["a", "b"]});
    becomes(EntryKind::Tool, tool(gaps), tool(expected), &[]);
}

#[test]
fn an_invalid_output_schema_is_removed() {
    for (schema, is_listed, is_object) in [
        (json!({"type": "object"}), true, true),
        (json!({"type": "array", "items": {}}), true, false),
        (json!({"anyOf": []}), true, false),
        (json!(7), false, true),
        (json!({"properties": 7}), false, true),
        (json!({"type": "object", "required": 5}), false, true),
        (Value::Null, false, true),
    ] {
        let listed = json!({"name": "a", "inputSchema": {}, "outputSchema": schema});
        let raw = to_raw_value(&listed).unwrap();
        let checked = EntryKind::Tool.check(&raw).unwrap();
        let tool: Value = serde_json::from_str(checked.entry.get()).unwrap();
        assert_eq!(tool.get("outputSchema").is_some(), is_listed, "{schema}");
        assert_eq!(has_object_output(&checked.entry), is_object, "{schema}");
    }
}

#[test]
fn an_ambiguous_entry_is_rejected() {
    use EntryKind::{Prompt, Resource, ResourceTemplate, Tool};
    let no_object_schema = "`inputSchema` is not a JSON Schema of type object";
    for (kind, entry, reason) in [
        (Tool, json!("a"), "the entry is not an object"),
        (Tool, json!([]), "the entry is not an object"),
        (Tool, json!({"inputSchema": {}}), "`name` is missing"),
        (Tool, json!({"name": 7}), "`name` is not a string"),
        (Tool, tool(json!("x")), no_object_schema),
        (Tool, tool(json!({"type": "string"})), no_object_schema),
        (
            Tool,
            tool(json!({"required": true})),
            "`inputSchema.required` is not a list of strings",
        ),
        (
            Tool,
            tool(json!({"properties": {"b": 5}})),
            "`inputSchema.properties.b` is not a JSON Schema",
        ),
        (Resource, json!({"name": "a"}), "`uri` is missing"),
        (
            Resource,
            json!({"name": "a", "uri": "a/b"}),
            "`uri` is not an absolute URI",
        ),
        (
            ResourceTemplate,
            json!({"name": "a", "uriTemplate": null}),
            "`uriTemplate` is not a string",
        ),
        (Prompt, json!({"description": "a"}), "`name` is missing"),
        (
            Prompt,
            json!({"name": "a", "arguments": {}}),
            "`arguments` is not a list",
        ),
        (
            Prompt,
            json!({"name": "a", "arguments": [{}]}),
            "`arguments[0].name` is missing",
        ),
        (
            Prompt,
            json!({"name": "a", "arguments": [{"name": "b"}, {"name": "c", "required": "yes"}]}),
            "`arguments[1].required` is not a boolean",
        ),
    ] {
        assert_eq!(check(kind, &entry).unwrap_err(), reason, "{entry}");
    }
}

#[test]
fn invalid_timestamps_are_removed() {
    for (text, fits) in [
        ("2025-01-12T15:00:58Z", true),
        ("2025-01-12T15:00Z", true),
        ("2025-01-12T15:00:58.123+02:00", true),
        ("2025-01-12T15:00:58-05:30", true),
        ("2025-01-12", false),
        ("2025-01-12T15:00:58", false),
        ("2025-13-12T15:00:58Z", false),
        ("2025-01-12 15:00:58Z", false),
        ("2025-01-12T15:00:58.Z", false),
        ("", false),
        ("Z", false),
        ("ä", false),
    ] {
        assert_eq!(is_timestamp(&json!(text)), fits, "{text}");
    }
}

#[test]
fn every_reader_reads_the_same_entry() {
    let check =
        |text: &str| EntryKind::Prompt.check(&RawValue::from_string(text.to_owned()).unwrap());
    for unreadable in ["1e999", r#""\ud800""#, r#"{"b":[-1e999]}"#] {
        let error = check(&format!(r#"{{"name":"a","x":{unreadable}}}"#)).unwrap_err();
        assert!(matches!(error, EntryError::Unreadable { .. }), "{error}");
        // A member that only describes the entry is removed.
        let checked = check(&format!(r#"{{"name":"a","title":{unreadable}}}"#)).unwrap();
        assert_eq!(checked.entry.get(), r#"{"name":"a"}"#);
    }
    for (text, expected) in [
        (r#"{"name":"a","name":"b"}"#, r#"{"name":"b"}"#),
        (
            r#"{"name":"a","x":[{"y":1,"y":2}]}"#,
            r#"{"name":"a","x":[{"y":2}]}"#,
        ),
        (r#"{"name":"a","na\u006de":"b"}"#, r#"{"name":"b"}"#),
    ] {
        let checked = check(text).unwrap();
        assert_eq!(checked.entry.get(), expected);
        assert_eq!(checked.value.to_string(), expected);
        assert_eq!(checked.repairs.len(), 1);
    }
}
