//! Malicious schemas. Results differ, but every check ends soon.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::{CheckAborted, CompiledSchema};

const CHECK_TIMEOUT: Duration = Duration::from_millis(200);

/// Runs a check on a stack of the size of the runtime's threads.
fn check(schema: Value, value: Value) -> Result<Option<String>, CheckAborted> {
    let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
    let check = thread.spawn(move || {
        let schema = CompiledSchema::compile(&schema).unwrap();
        let before = Instant::now();
        let checked = schema.mismatch_within(&value, CHECK_TIMEOUT);
        assert!(before.elapsed() < Duration::from_secs(10));
        checked
    });
    check.unwrap().join().unwrap()
}

/// Returns definitions `d0` to `dN`, each of which is `link` of the next; the last one is `end`.
fn linked(count: usize, link: impl Fn(Value) -> Value, end: Value) -> Value {
    let mut definitions = Map::new();
    for nth in 0..count {
        let next = json!({"$ref": format!("#/definitions/d{}", nth + 1)});
        definitions.insert(format!("d{nth}"), link(next));
    }
    definitions.insert(format!("d{count}"), end);
    json!({"allOf": [{"$ref": "#/definitions/d0"}], "definitions": definitions})
}

fn of_draft_7(mut schema: Value) -> Value {
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!([]), |value, _| json!([value]))
}

#[test]
fn exponential_schemas_are_aborted() {
    for keyword in ["anyOf", "oneOf", "allOf"] {
        for (end, value) in [
            (json!({"type": "string"}), json!("x")),
            (json!({"type": "string"}), json!(5)),
            (json!(false), json!(5)),
            (json!(true), json!(5)),
        ] {
            let twice = |next: Value| json!({keyword: [next, {"not": {"not": next}}]});
            for schema in [
                linked(60, twice, end.clone()),
                of_draft_7(linked(60, twice, end.clone())),
            ] {
                let checked = check(schema, value.clone());
                // The first alternative decides, so the work does not double.
                assert!(
                    !matches!(checked, Err(CheckAborted::Depth)),
                    "{keyword} {end}"
                );
            }
        }
    }
    let twice = |next: Value| json!({"anyOf": [next, next]});
    let hard = linked(60, twice, json!({"type": "string"}));
    assert_eq!(check(hard, json!(5)), Err(CheckAborted::Time));
}

#[test]
fn a_schema_that_doubles_the_work_with_every_level_of_the_value_comes_to_an_end() {
    let items = json!({"items": {"$ref": "#"}, "type": "array", "minItems": 1});
    for schema in [
        json!({"anyOf": [items, items]}),
        json!({"oneOf": [items, items]}),
        json!({"anyOf": [items, items], "unevaluatedItems": false}),
        json!({"if": items, "then": items, "else": items}),
        json!({"$dynamicAnchor": "a", "anyOf": [
            {"items": {"$dynamicRef": "#a"}, "minItems": 1},
            {"items": {"$dynamicRef": "#a"}, "minItems": 1},
        ]}),
    ] {
        let checked = check(schema, nested(100));
        assert!(!matches!(checked, Ok(None)), "{checked:?}");
    }
}

#[test]
fn a_long_chain_of_references_never_uses_up_the_stack() {
    let same = |next| next;
    let end = json!({"items": {"$ref": "#/definitions/d0"}});
    for schema in [
        linked(990, same, end.clone()),
        of_draft_7(linked(990, same, end)),
    ] {
        assert_eq!(check(schema, nested(100)), Err(CheckAborted::Depth));
    }
    let short = of_draft_7(linked(20, same, json!({"type": "array"})));
    assert_eq!(check(short.clone(), json!([])), Ok(None));
    assert!(check(short, json!(5)).unwrap().is_some());
    let long = linked(2000, same, json!(true));
    assert!(CompiledSchema::compile(&long).is_err());
    let itself = json!({"allOf": [{"$ref": "#"}, {"type": "integer"}]});
    assert_eq!(check(itself, json!(1)), Ok(None));
}

#[test]
fn a_reference_leads_to_schemas_alone() {
    for (schema, possible) in [
        (
            json!({"$ref": "#/default/a", "default": {"a": {"type": "string"}}}),
            true,
        ),
        (
            json!({"$ref": "#/components/schemas/a", "components": {"schemas": {
                "a": {"items": {"$ref": "#/components/schemas/a"}},
            }}}),
            true,
        ),
        (
            json!({"$ref": "#/items/0", "items": {"0": {"type": "string"}}}),
            true,
        ),
        (
            json!({"$ref": "#/const/a", "const": {"a": {"type": "string"}}}),
            false,
        ),
        (json!({"$ref": "#/nowhere"}), false),
        (
            json!({"$ref": "e#/$defs/a", "$defs": {"e": {"$id": "e", "$defs": {"a": {}}}}}),
            true,
        ),
        (
            json!({"$ref": "e#/x", "x": {}, "$defs": {"e": {"$id": "e", "x": {}}}}),
            false,
        ),
        (
            json!({"$ref": "#/$defs/a%20b~1c", "$defs": {"a b/c": {"type": "string"}}}),
            true,
        ),
        (json!({"$ref": "#/$defs/a", "$defs": {"a": true}}), true),
        (
            json!({"$id": "https://x.example/y", "$ref": "https://x.example/y#/$defs/a", "$defs": {"a": {}}}),
            true,
        ),
        (
            json!({"$ref": "#a", "$defs": {"a": {"$anchor": "a"}}}),
            true,
        ),
        (
            json!({"properties": {"$ref": {"type": "string"}, "allOf": {"type": "string"}}}),
            true,
        ),
    ] {
        let compiled = CompiledSchema::compile(&schema);
        assert_eq!(compiled.is_ok(), possible, "{schema}: {compiled:?}");
    }
}

#[test]
fn steps_are_counted_in_all_schema_locations() {
    let twice = |next: &str| json!({"anyOf": [{"$ref": next}, {"$ref": next}]});
    let mut hidden = Map::new();
    for nth in 0..60 {
        hidden.insert(format!("d{nth}"), twice(&format!("#/x/0/d{}", nth + 1)));
    }
    hidden.insert("d60".to_owned(), json!({"type": "string"}));
    let schema = json!({"$ref": "#/x/0/d0", "x": [hidden]});
    assert_eq!(check(schema, json!(5)), Err(CheckAborted::Time));
}

#[test]
fn regular_expressions_are_bounded() {
    let text = json!(format!("{}!", "a".repeat(200)));
    for pattern in ["^(a+)+$", "^(?=(a+)+$)b", "^(a+)+\\1c$", "^(a|a)*\\1$"] {
        let _ = check(json!({"pattern": pattern}), text.clone());
        let many = json!(vec![text.clone(); 1000]);
        let _ = check(
            json!({"not": {"items": {"not": {"pattern": pattern}}}}),
            many,
        );
    }
    let large = json!({"pattern": "((\\w{100}){100}){100}"});
    assert!(CompiledSchema::compile(&large).is_err());
    let many: Vec<_> = (0..1000)
        .map(|n| json!({"pattern": format!("{n}")}))
        .collect();
    assert!(CompiledSchema::compile(&json!({"anyOf": many})).is_err());
}

#[test]
fn names_times_patterns_are_bounded() {
    let patterns = |count: usize, pattern: &str| -> Map<_, _> {
        (0..count)
            .map(|nth| (format!("{pattern}{nth}$"), json!({"type": "string"})))
            .collect()
    };
    let names = |count: usize| -> Map<_, _> {
        (0..count)
            .map(|nth| (format!("{}{nth}", "a".repeat(40)), json!(5)))
            .collect()
    };
    let many = json!({"patternProperties": patterns(500, "^[b-z]+")});
    assert_eq!(check(many, json!(names(20_000))), Err(CheckAborted::Names));
    let backtracking = patterns(1, "^(?=(a+)+$)b");
    for schema in [
        json!({"patternProperties": backtracking}),
        json!({"patternProperties": backtracking, "additionalProperties": {"type": "integer"}}),
    ] {
        assert_eq!(
            check(schema, json!(names(20_000))),
            Err(CheckAborted::Names)
        );
    }
    // A small number of matches is repeated many times.
    let few = json!({"patternProperties": patterns(50, "^[b-z]+")});
    let twice = |next: Value| json!({"anyOf": [next, {"not": {"not": next}}]});
    let mut schema = linked(60, twice, json!({"allOf": [few, {"type": "string"}]}));
    assert_eq!(
        check(schema.clone(), json!(names(50))),
        Err(CheckAborted::Time)
    );
    schema = of_draft_7(schema);
    assert_eq!(check(schema, json!(names(50))), Err(CheckAborted::Time));
}

#[test]
fn a_pattern_that_never_fits_is_a_step_each_time() {
    let slow = json!({"pattern": "^(?=(a+)+$)b"});
    let text = json!(format!("{}!", "a".repeat(200)));
    // `contains` checks all elements, because none matches.
    let checked = check(json!({"contains": slow}), json!(vec![text; 100_000]));
    assert_eq!(checked, Err(CheckAborted::Time));
}

#[test]
fn a_pattern_beside_other_keywords_still_holds() {
    let schema = json!({"pattern": "^a", "allOf": [{"minLength": 2}], "maxLength": 3});
    for (value, fits) in [("ab", true), ("bb", false), ("a", false), ("abcd", false)] {
        let found = check(schema.clone(), json!(value)).unwrap();
        assert_eq!(found.is_none(), fits, "{value} {found:?}");
    }
    assert!(CompiledSchema::compile(&json!({"pattern": 5})).is_err());
    assert!(CompiledSchema::compile(&json!({"pattern": "a", "allOf": 5})).is_err());
}

#[test]
fn a_large_value_that_is_wrong_everywhere_gets_short_words() {
    let either = json!({"anyOf": [{"items": {"type": "string"}}, {"items": {"type": "boolean"}}]});
    let words = check(either, json!(vec![1; 100_000])).unwrap().unwrap();
    assert_eq!(words, "it does not match its schema");
    let schema = json!({"type": "object", "properties": {"a": {"items": {"type": "string"}}}});
    let compiled = CompiledSchema::compile(&schema).unwrap();
    let mut arguments = json!({"a": vec![1; 100_000]}).as_object().cloned().unwrap();
    assert!(compiled.validate(&mut arguments).is_err());
}
