//! Tests with malicious schemas: the results of the checks differ, but every check ends soon.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::{CheckAborted, CompiledSchema, LazySchema};

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

/// Returns definitions `d0` to `dN`, of which each is `link` of a reference to the next; the last
/// definition is `end`.
fn linked(count: usize, link: impl Fn(Value) -> Value, end: Value) -> Value {
    let mut definitions = Map::new();
    for nth in 0..count {
        let next = json!({"$ref": format!("#/definitions/d{}", nth + 1)});
        definitions.insert(format!("d{nth}"), link(next));
    }
    definitions.insert(format!("d{count}"), end);
    json!({"allOf": [{"$ref": "#/definitions/d0"}], "definitions": definitions})
}

fn with_draft_7(mut schema: Value) -> Value {
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
            let schema = linked(60, twice, end.clone());
            for schema in [schema.clone(), with_draft_7(schema)] {
                // The first alternative decides the result, so the work does not double.
                let checked = check(schema, value.clone());
                assert_ne!(checked, Err(CheckAborted::Depth), "{keyword} {end}");
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
    let long = linked(990, same, end);
    for schema in [long.clone(), with_draft_7(long)] {
        assert_eq!(check(schema, nested(100)), Err(CheckAborted::Depth));
    }
    let short = with_draft_7(linked(20, same, json!({"type": "array"})));
    assert_eq!(check(short.clone(), json!([])), Ok(None));
    assert!(check(short, json!(5)).unwrap().is_some());
    let too_long = linked(2000, same, json!(true));
    assert!(CompiledSchema::compile(&too_long).is_err());
    let itself = json!({"allOf": [{"$ref": "#"}, {"type": "integer"}]});
    assert_eq!(check(itself, json!(1)), Ok(None));
}

#[test]
fn a_reference_leads_to_schemas_alone() {
    for (schema, is_valid) in [
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
        assert_eq!(compiled.is_ok(), is_valid, "{schema}: {compiled:?}");
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
        let items = json!({"not": {"items": {"not": {"pattern": pattern}}}});
        let _ = check(items, json!(vec![text.clone(); 1000]));
    }
    let large = json!({"pattern": "((\\w{100}){100}){100}"});
    assert!(CompiledSchema::compile(&large).is_err());
    let many: Vec<_> = (0..1000)
        .map(|n| json!({"pattern": format!("{n}")}))
        .collect();
    assert!(CompiledSchema::compile(&json!({"anyOf": many})).is_err());
}

#[test]
fn a_reference_to_a_meta_schema_compiles_its_patterns() {
    let schema = json!({"$ref": "https://json-schema.org/draft/2020-12/schema"});
    assert_eq!(check(schema.clone(), json!({"$id": "a"})), Ok(None));
    assert!(check(schema, json!({"$id": "a#b"})).unwrap().is_some());
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
        let checked = check(schema, json!(names(20_000)));
        assert_eq!(checked, Err(CheckAborted::Names));
    }
    // A small number of pattern matches is repeated for many values.
    let few = json!({"patternProperties": patterns(50, "^[b-z]+")});
    let twice = |next: Value| json!({"anyOf": [next, {"not": {"not": next}}]});
    let schema = linked(60, twice, json!({"allOf": [few, {"type": "string"}]}));
    for schema in [schema.clone(), with_draft_7(schema)] {
        assert_eq!(check(schema, json!(names(50))), Err(CheckAborted::Time));
    }
}

#[test]
fn a_pattern_that_never_fits_is_a_step_each_time() {
    let slow = json!({"pattern": "^(?=(a+)+$)b"});
    let text = json!(format!("{}!", "a".repeat(200)));
    // No element matches, so `contains` checks all elements.
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

/// Returns schemas of which each takes long to compile, or would take much memory.
fn expensive_schemas() -> Vec<(&'static str, Value)> {
    let named = |count: usize, prefix: &str, schema: &dyn Fn(usize) -> Value| -> Map<_, _> {
        (0..count)
            .map(|nth| (format!("{prefix}{nth}"), schema(nth)))
            .collect()
    };
    let pattern = |pattern: String| json!({"pattern": pattern});
    let patterns = |count: usize, start: &str| {
        let property = |nth: usize| pattern(format!("{start}{nth}"));
        json!({"properties": named(count, "p", &property)})
    };
    let repeated = |part: &str, count: usize| pattern(part.repeat(count));
    let groups = |open: &str, close: &str| {
        pattern(format!("{}a{}", open.repeat(10_000), close.repeat(10_000)))
    };
    let unevaluated = |keyword: &str| {
        let both = |next: Value| json!({"allOf": [next, next], (keyword): false});
        let mut schema = linked(150, both, json!({}));
        schema["type"] = json!("object");
        schema
    };
    let condition =
        |next: Value| json!({"if": next, "then": next, "else": next, "unevaluatedItems": false});
    let words: Vec<_> = (0..20_000).map(|nth| format!("word{nth}x")).collect();
    let any_word = |count: usize| words[..count].join("|");
    let characters: String = ('\u{4e00}'..'\u{9000}').step_by(2).collect();
    let text = json!({"type": "string"});
    let not_empty = json!({"type": "string", "minLength": 1});
    let long_names = named(500, "^x{1000}", &|_| json!(true));
    let numbers: Value = (0..300_000).collect();
    let digits: Value = (0..300_000).map(|nth| nth.to_string()).collect();
    let objects: Value = (0..50_000).map(|nth| json!({"a": [nth]})).collect();
    let schema_id = |nth: usize| format!("https://x.example/{nth}");
    vec![
        ("counted", patterns(100, "^(a{1,200}b{1,200}){1,3}")),
        ("classes", patterns(500, "^[\\p{L}\\p{N}]{1,300}$")),
        ("look-around", patterns(500, "^(?=\\w{1,300}$)")),
        ("names", json!({"patternProperties": long_names})),
        (
            "names beside",
            json!({
                "patternProperties": long_names,
                "additionalProperties": false,
                "unevaluatedProperties": false,
            }),
        ),
        ("words", pattern(format!("(?:{})z", any_word(20_000)))),
        (
            "ignoring case",
            pattern(format!("(?i)({}){{20}}", any_word(500))),
        ),
        ("translated", repeated("\\d", 5_000)),
        ("translated often", patterns(500, &"\\s".repeat(100))),
        ("control characters", repeated("\\cA", 20_000)),
        (
            "translated classes",
            pattern(format!("[{}]", "\\w".repeat(20_000))),
        ),
        ("nested groups", groups("(", "){9}")),
        ("nested look-around", groups("(?=", ")")),
        (
            "long names",
            json!({"properties": {"n".repeat(100_000): {
                "properties": named(5_000, "p", &|_| not_empty.clone()),
            }}}),
        ),
        (
            "long keywords",
            named(20_000, &"k".repeat(200), &|nth| json!(nth)).into(),
        ),
        (
            "properties",
            json!({"properties": named(40_000, "p", &|_| text.clone())}),
        ),
        ("enum", json!({"enum": numbers})),
        ("enum of objects", json!({"enum": objects})),
        ("required", json!({"required": digits})),
        (
            "const",
            json!({"const": named(100_000, "k", &|nth| json!([nth]))}),
        ),
        (
            "dependencies",
            json!({"dependentRequired": named(50_000, "p", &|_| json!(["a", "b"]))}),
        ),
        (
            "identifiers",
            json!({"$defs": named(10_000, "d", &|nth| json!({
                "$id": schema_id(nth), "$anchor": format!("a{nth}"),
            }))}),
        ),
        (
            "dynamic references",
            json!({"$ref": schema_id(0), "$defs": named(100, "d", &|nth| json!({
                "$id": schema_id(nth), "$dynamicAnchor": "x", "properties": {
                    "a": {"$dynamicRef": "#x"},
                    "b": {"$ref": schema_id((nth + 1) % 100)},
                    "c": {"$ref": schema_id((nth + 3) % 100)},
                },
            }))}),
        ),
        (
            "unevaluated properties",
            unevaluated("unevaluatedProperties"),
        ),
        ("unevaluated items", unevaluated("unevaluatedItems")),
        (
            "cyclic unevaluated",
            json!({"$ref": "#/$defs/d0", "$defs": named(150, "d", &|nth| json!({
                "anyOf": [
                    {"$ref": format!("#/$defs/d{}", (nth + 1) % 150)},
                    {"$ref": format!("#/$defs/d{}", (nth + 7) % 150)},
                ],
                "unevaluatedProperties": false,
            }))}),
        ),
        ("conditions", linked(150, condition, json!({}))),
        (
            "commented",
            patterns(500, "(?x)#[\n(a{1,100}b{1,100}){1,50}"),
        ),
        (
            "calls of groups",
            patterns(500, "(?=x)(?<a>y{1,100}\\g<a>?\\g<a>?)"),
        ),
        (
            "look-behind",
            patterns(500, "(?x)#[\n(?<=((a{1,99}){1,99}){1,99})x"),
        ),
        (
            "ignoring the case of classes",
            patterns(500, "(?i)[\\p{L}\\p{N}\\p{Cyrillic}]"),
        ),
        (
            "a class of many characters",
            pattern(format!("[{characters}]")),
        ),
        (
            "meta-schemas",
            json!({"properties": named(900, "p", &|nth| json!({
                "$ref": "https://json-schema.org/draft/2020-12/schema", "maxProperties": nth,
                "unevaluatedProperties": false,
            }))}),
        ),
        (
            "references to everything",
            json!({"properties": named(900, "p", &|nth| json!({
                "$ref": format!("#/properties/p{}", (nth * 7 + 1) % 900), "items": {"type": "string"},
            }))}),
        ),
    ]
}

#[test]
fn checking_and_compiling_any_schema_is_bounded() {
    let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
    let checks = thread.spawn(|| {
        for (name, schema) in expensive_schemas() {
            for schema in [with_draft_7(schema.clone()), schema] {
                let schema = std::sync::Arc::new(schema);
                let began = Instant::now();
                let checked = LazySchema::check(schema, name);
                // These checks run on threads that process the lists of a server, one list after
                // the other. An unoptimized build takes some ten times as long.
                let limit = Duration::from_secs(10);
                assert!(began.elapsed() < limit, "{name}: {:?}", began.elapsed());
                if let Ok(checked) = checked {
                    let compiled = checked.compile().map(drop);
                    assert!(began.elapsed() < 2 * limit, "{name}: {:?}", began.elapsed());
                    let reason = "the schema takes too long to compile";
                    let is_another_error =
                        checked.error().is_some_and(|error| error.reason != reason);
                    assert!(compiled.is_ok() || is_another_error, "{name}");
                }
            }
        }
    });
    checks.unwrap().join().unwrap();
}

#[test]
fn defaults_and_strict_forms_of_huge_definitions_are_bounded() {
    let properties = |count: usize, property: &Value| -> Map<_, _> {
        (0..count)
            .map(|nth| (format!("p{nth}"), property.clone()))
            .collect()
    };
    let map = json!({"type": "object", "default": []});
    let long_names = json!({"n".repeat(1_000_000): {"properties": properties(5_000, &map)}});
    let names: Vec<_> = (0..100_000).map(|nth| format!("p{nth}")).collect();
    let began = Instant::now();
    for mut definition in [
        json!({"properties": properties(10_000, &map)}),
        json!({"properties": long_names}),
        json!({"properties": properties(3_000, &json!({
            "anyOf": vec![map; 50], "default": {"a": []},
        }))}),
    ] {
        super::coerce_defaults(&mut definition);
    }
    let text = json!({"type": "string"});
    let properties = properties(100_000, &text);
    let all_required = json!({"type": "object", "properties": properties, "required": names});
    assert!(super::strict(&all_required).is_none());
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn nulls_and_long_lists_of_required_names_are_not_checked_inline() {
    let names: Vec<_> = (0..40_000).map(|nth| format!("r{nth}")).collect();
    let schema = json!({"additionalProperties": {"type": "string"}, "required": names});
    let compiled = CompiledSchema::compile(&schema).unwrap();
    let nulls = (0..1_500).map(|nth| (format!("n{nth}"), Value::Null));
    let mut arguments: Map<_, _> = nulls.collect();
    let began = Instant::now();
    let briefly = compiled.validate_briefly(&mut arguments, super::OptionalNull::LeftOut);
    assert_eq!(briefly, None);
    assert!(began.elapsed() < Duration::from_secs(1));
    // An error message does not repeat a huge list.
    let allowed = json!({"properties": {"a": {"enum": names}}});
    let compiled_enum = CompiledSchema::compile(&allowed).unwrap();
    let mut wrong = json!({"a": "x"}).as_object().cloned().unwrap();
    let violation = compiled_enum.validate(&mut wrong).unwrap_err().to_string();
    assert!(violation.len() < 5_000, "{violation}");
    assert!(violation.ends_with("..."), "{violation}");
}
