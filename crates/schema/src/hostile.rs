//! Tests with malicious schemas: a check may pass or fail, but must finish within its limits.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::{CheckAborted, CompiledSchema, LazySchema};

const CHECK_TIMEOUT: Duration = Duration::from_millis(200);

/// Runs a check on a thread with the stack size of the runtime's threads.
fn check(schema: Value, value: Value) -> Result<Option<String>, CheckAborted> {
    let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
    let check = thread.spawn(move || {
        let schema = CompiledSchema::compile(&schema).unwrap();
        let started_at = Instant::now();
        let verdict = schema.mismatch_within(&value, CHECK_TIMEOUT);
        assert!(started_at.elapsed() < Duration::from_secs(10));
        verdict
    });
    check.unwrap().join().unwrap()
}

/// Returns a schema with the definitions `d0` to `dN`. `create_definition` creates each definition
/// from a reference to the next definition; the last definition is `last_definition`.
fn chain_of_definitions(
    count: usize,
    create_definition: impl Fn(Value) -> Value,
    last_definition: Value,
) -> Value {
    let mut definitions = Map::new();
    for index in 0..count {
        let next_reference = json!({"$ref": format!("#/definitions/d{}", index + 1)});
        definitions.insert(format!("d{index}"), create_definition(next_reference));
    }
    definitions.insert(format!("d{count}"), last_definition);
    json!({"allOf": [{"$ref": "#/definitions/d0"}], "definitions": definitions})
}

fn with_draft_7(mut schema: Value) -> Value {
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema
}

fn nested_lists(levels: usize) -> Value {
    (0..levels).fold(json!([]), |value, _| json!([value]))
}

#[test]
fn exponential_schemas_are_aborted() {
    for keyword in ["anyOf", "oneOf", "allOf"] {
        for (last_definition, value) in [
            (json!({"type": "string"}), json!("x")),
            (json!({"type": "string"}), json!(5)),
            (json!(false), json!(5)),
            (json!(true), json!(5)),
        ] {
            let use_twice = |next: Value| json!({keyword: [next, {"not": {"not": next}}]});
            let schema = chain_of_definitions(60, use_twice, last_definition.clone());
            for schema in [schema.clone(), with_draft_7(schema)] {
                // The first alternative already determines the result, so the work does not double
                // with each definition.
                let verdict = check(schema, value.clone());
                assert_ne!(
                    verdict,
                    Err(CheckAborted::TooDeep),
                    "{keyword} {last_definition}"
                );
            }
        }
    }
    let use_twice = |next: Value| json!({"anyOf": [next, next]});
    let expensive_schema = chain_of_definitions(60, use_twice, json!({"type": "string"}));
    assert_eq!(
        check(expensive_schema, json!(5)),
        Err(CheckAborted::TimeLimit)
    );
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
        let verdict = check(schema, nested_lists(100));
        assert!(!matches!(verdict, Ok(None)), "{verdict:?}");
    }
}

#[test]
fn a_long_chain_of_references_never_uses_up_the_stack() {
    let keep_reference = |next| next;
    let last_definition = json!({"items": {"$ref": "#/definitions/d0"}});
    let long_chain = chain_of_definitions(990, keep_reference, last_definition);
    for schema in [long_chain.clone(), with_draft_7(long_chain)] {
        assert_eq!(check(schema, nested_lists(100)), Err(CheckAborted::TooDeep));
    }
    let short_chain = with_draft_7(chain_of_definitions(
        20,
        keep_reference,
        json!({"type": "array"}),
    ));
    assert_eq!(check(short_chain.clone(), json!([])), Ok(None));
    assert!(check(short_chain, json!(5)).unwrap().is_some());
    let overlong_chain = chain_of_definitions(2000, keep_reference, json!(true));
    assert!(CompiledSchema::compile(&overlong_chain).is_err());
    let self_reference = json!({"allOf": [{"$ref": "#"}, {"type": "integer"}]});
    assert_eq!(check(self_reference, json!(1)), Ok(None));
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
    let use_twice = |next: &str| json!({"anyOf": [{"$ref": next}, {"$ref": next}]});
    let mut hidden_schemas = Map::new();
    for index in 0..60 {
        hidden_schemas.insert(
            format!("d{index}"),
            use_twice(&format!("#/x/0/d{}", index + 1)),
        );
    }
    hidden_schemas.insert("d60".to_owned(), json!({"type": "string"}));
    let schema = json!({"$ref": "#/x/0/d0", "x": [hidden_schemas]});
    assert_eq!(check(schema, json!(5)), Err(CheckAborted::TimeLimit));
}

#[test]
fn regular_expressions_are_bounded() {
    let text = json!(format!("{}!", "a".repeat(200)));
    for pattern in ["^(a+)+$", "^(?=(a+)+$)b", "^(a+)+\\1c$", "^(a|a)*\\1$"] {
        let _ = check(json!({"pattern": pattern}), text.clone());
        let items = json!({"not": {"items": {"not": {"pattern": pattern}}}});
        let _ = check(items, json!(vec![text.clone(); 1000]));
    }
    let large_pattern = json!({"pattern": "((\\w{100}){100}){100}"});
    assert!(CompiledSchema::compile(&large_pattern).is_err());
    let many_patterns: Vec<_> = (0..1000)
        .map(|number| json!({"pattern": format!("{number}")}))
        .collect();
    assert!(CompiledSchema::compile(&json!({"anyOf": many_patterns})).is_err());
}

#[test]
fn a_reference_to_a_meta_schema_compiles_its_patterns() {
    let schema = json!({"$ref": "https://json-schema.org/draft/2020-12/schema"});
    assert_eq!(check(schema.clone(), json!({"$id": "a"})), Ok(None));
    assert!(check(schema, json!({"$id": "a#b"})).unwrap().is_some());
}

#[test]
fn names_times_patterns_are_bounded() {
    let pattern_properties = |count: usize, pattern: &str| -> Map<_, _> {
        (0..count)
            .map(|index| (format!("{pattern}{index}$"), json!({"type": "string"})))
            .collect()
    };
    let numbered_members = |count: usize| -> Map<_, _> {
        (0..count)
            .map(|index| (format!("{}{index}", "a".repeat(40)), json!(5)))
            .collect()
    };
    let schema_with_many_patterns =
        json!({"patternProperties": pattern_properties(500, "^[b-z]+")});
    assert_eq!(
        check(schema_with_many_patterns, json!(numbered_members(20_000))),
        Err(CheckAborted::TooManyNames)
    );
    let backtracking_properties = pattern_properties(1, "^(?=(a+)+$)b");
    for schema in [
        json!({"patternProperties": backtracking_properties}),
        json!({
            "patternProperties": backtracking_properties,
            "additionalProperties": {"type": "integer"},
        }),
    ] {
        let verdict = check(schema, json!(numbered_members(20_000)));
        assert_eq!(verdict, Err(CheckAborted::TooManyNames));
    }
    // A small number of pattern matches is repeated for many values.
    let schema_with_few_patterns = json!({"patternProperties": pattern_properties(50, "^[b-z]+")});
    let use_twice = |next: Value| json!({"anyOf": [next, {"not": {"not": next}}]});
    let schema = chain_of_definitions(
        60,
        use_twice,
        json!({"allOf": [schema_with_few_patterns, {"type": "string"}]}),
    );
    for schema in [schema.clone(), with_draft_7(schema)] {
        assert_eq!(
            check(schema, json!(numbered_members(50))),
            Err(CheckAborted::TimeLimit)
        );
    }
}

#[test]
fn a_pattern_that_never_fits_is_a_step_each_time() {
    let slow_schema = json!({"pattern": "^(?=(a+)+$)b"});
    let text = json!(format!("{}!", "a".repeat(200)));
    // No element matches, so `contains` checks all elements.
    let verdict = check(json!({"contains": slow_schema}), json!(vec![text; 100_000]));
    assert_eq!(verdict, Err(CheckAborted::TimeLimit));
}

#[test]
fn a_pattern_beside_other_keywords_still_holds() {
    let schema = json!({"pattern": "^a", "allOf": [{"minLength": 2}], "maxLength": 3});
    for (value, is_valid) in [("ab", true), ("bb", false), ("a", false), ("abcd", false)] {
        let mismatch = check(schema.clone(), json!(value)).unwrap();
        assert_eq!(mismatch.is_none(), is_valid, "{value} {mismatch:?}");
    }
    assert!(CompiledSchema::compile(&json!({"pattern": 5})).is_err());
    assert!(CompiledSchema::compile(&json!({"pattern": "a", "allOf": 5})).is_err());
}

#[test]
fn a_large_value_that_is_wrong_everywhere_gets_short_words() {
    let schema_with_alternatives =
        json!({"anyOf": [{"items": {"type": "string"}}, {"items": {"type": "boolean"}}]});
    let message = check(schema_with_alternatives, json!(vec![1; 100_000]))
        .unwrap()
        .unwrap();
    assert_eq!(message, "the value does not match its schema");
    let schema = json!({"type": "object", "properties": {"a": {"items": {"type": "string"}}}});
    let compiled = CompiledSchema::compile(&schema).unwrap();
    let mut arguments = json!({"a": vec![1; 100_000]}).as_object().cloned().unwrap();
    assert!(compiled.validate(&mut arguments).is_err());
}

/// Returns schemas that are slow to compile or would use much memory.
fn expensive_schemas() -> Vec<(&'static str, Value)> {
    let numbered_members =
        |count: usize, prefix: &str, schema: &dyn Fn(usize) -> Value| -> Map<_, _> {
            (0..count)
                .map(|index| (format!("{prefix}{index}"), schema(index)))
                .collect()
        };
    let pattern_schema = |pattern: String| json!({"pattern": pattern});
    let pattern_properties = |count: usize, start: &str| {
        let property = |index: usize| pattern_schema(format!("{start}{index}"));
        json!({"properties": numbered_members(count, "p", &property)})
    };
    let repeated_pattern = |part: &str, count: usize| pattern_schema(part.repeat(count));
    let nested_groups = |open: &str, close: &str| {
        pattern_schema(format!("{}a{}", open.repeat(10_000), close.repeat(10_000)))
    };
    let unevaluated_schema = |keyword: &str| {
        let require_twice = |next: Value| json!({"allOf": [next, next], (keyword): false});
        let mut schema = chain_of_definitions(150, require_twice, json!({}));
        schema["type"] = json!("object");
        schema
    };
    let conditional_schema =
        |next: Value| json!({"if": next, "then": next, "else": next, "unevaluatedItems": false});
    let words: Vec<_> = (0..20_000).map(|index| format!("word{index}x")).collect();
    let any_word = |count: usize| words[..count].join("|");
    let characters: String = ('\u{4e00}'..'\u{9000}').step_by(2).collect();
    let string_schema = json!({"type": "string"});
    let non_empty_schema = json!({"type": "string", "minLength": 1});
    let long_names = numbered_members(500, "^x{1000}", &|_| json!(true));
    let numbers: Value = (0..300_000).collect();
    let number_texts: Value = (0..300_000).map(|index| index.to_string()).collect();
    let objects: Value = (0..50_000).map(|index| json!({"a": [index]})).collect();
    let schema_id = |index: usize| format!("https://x.example/{index}");
    vec![
        (
            "counted",
            pattern_properties(100, "^(a{1,200}b{1,200}){1,3}"),
        ),
        (
            "classes",
            pattern_properties(500, "^[\\p{L}\\p{N}]{1,300}$"),
        ),
        ("look-around", pattern_properties(500, "^(?=\\w{1,300}$)")),
        ("names", json!({"patternProperties": long_names})),
        (
            "names beside",
            json!({
                "patternProperties": long_names,
                "additionalProperties": false,
                "unevaluatedProperties": false,
            }),
        ),
        (
            "words",
            pattern_schema(format!("(?:{})z", any_word(20_000))),
        ),
        (
            "ignoring case",
            pattern_schema(format!("(?i)({}){{20}}", any_word(500))),
        ),
        ("translated", repeated_pattern("\\d", 5_000)),
        (
            "translated often",
            pattern_properties(500, &"\\s".repeat(100)),
        ),
        ("control characters", repeated_pattern("\\cA", 20_000)),
        (
            "translated classes",
            pattern_schema(format!("[{}]", "\\w".repeat(20_000))),
        ),
        ("nested groups", nested_groups("(", "){9}")),
        ("nested look-around", nested_groups("(?=", ")")),
        (
            "long names",
            json!({"properties": {"n".repeat(100_000): {
                "properties": numbered_members(5_000, "p", &|_| non_empty_schema.clone()),
            }}}),
        ),
        (
            "long keywords",
            numbered_members(20_000, &"k".repeat(200), &|index| json!(index)).into(),
        ),
        (
            "properties",
            json!({"properties": numbered_members(40_000, "p", &|_| string_schema.clone())}),
        ),
        ("enum", json!({"enum": numbers})),
        ("enum of objects", json!({"enum": objects})),
        ("required", json!({"required": number_texts})),
        (
            "const",
            json!({"const": numbered_members(100_000, "k", &|index| json!([index]))}),
        ),
        (
            "dependencies",
            json!({"dependentRequired": numbered_members(50_000, "p", &|_| json!(["a", "b"]))}),
        ),
        (
            "identifiers",
            json!({"$defs": numbered_members(10_000, "d", &|index| json!({
                "$id": schema_id(index), "$anchor": format!("a{index}"),
            }))}),
        ),
        (
            "dynamic references",
            json!({"$ref": schema_id(0), "$defs": numbered_members(100, "d", &|index| json!({
                "$id": schema_id(index), "$dynamicAnchor": "x", "properties": {
                    "a": {"$dynamicRef": "#x"},
                    "b": {"$ref": schema_id((index + 1) % 100)},
                    "c": {"$ref": schema_id((index + 3) % 100)},
                },
            }))}),
        ),
        (
            "unevaluated properties",
            unevaluated_schema("unevaluatedProperties"),
        ),
        ("unevaluated items", unevaluated_schema("unevaluatedItems")),
        (
            "cyclic unevaluated",
            json!({"$ref": "#/$defs/d0", "$defs": numbered_members(150, "d", &|index| json!({
                "anyOf": [
                    {"$ref": format!("#/$defs/d{}", (index + 1) % 150)},
                    {"$ref": format!("#/$defs/d{}", (index + 7) % 150)},
                ],
                "unevaluatedProperties": false,
            }))}),
        ),
        (
            "conditions",
            chain_of_definitions(150, conditional_schema, json!({})),
        ),
        (
            "commented",
            pattern_properties(500, "(?x)#[\n(a{1,100}b{1,100}){1,50}"),
        ),
        (
            "calls of groups",
            pattern_properties(500, "(?=x)(?<a>y{1,100}\\g<a>?\\g<a>?)"),
        ),
        (
            "look-behind",
            pattern_properties(500, "(?x)#[\n(?<=((a{1,99}){1,99}){1,99})x"),
        ),
        (
            "ignoring the case of classes",
            pattern_properties(500, "(?i)[\\p{L}\\p{N}\\p{Cyrillic}]"),
        ),
        (
            "a class of many characters",
            pattern_schema(format!("[{characters}]")),
        ),
        (
            "meta-schemas",
            json!({"properties": numbered_members(900, "p", &|index| json!({
                "$ref": "https://json-schema.org/draft/2020-12/schema", "maxProperties": index,
                "unevaluatedProperties": false,
            }))}),
        ),
        (
            "references to everything",
            json!({"properties": numbered_members(900, "p", &|index| json!({
                "$ref": format!("#/properties/p{}", (index * 7 + 1) % 900), "items": {"type": "string"},
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
                let started_at = Instant::now();
                let verdict = LazySchema::check(schema, name);
                // In production, these checks run on threads that process the lists of a server,
                // one list after the other. An unoptimized build takes some ten times as long.
                let limit = Duration::from_secs(10);
                assert!(
                    started_at.elapsed() < limit,
                    "{name}: {:?}",
                    started_at.elapsed()
                );
                if let Ok(verdict) = verdict {
                    let compiled = verdict.compile().map(drop);
                    assert!(
                        started_at.elapsed() < 2 * limit,
                        "{name}: {:?}",
                        started_at.elapsed()
                    );
                    let reason = "the schema takes too long to compile";
                    let is_another_error =
                        verdict.error().is_some_and(|error| error.reason != reason);
                    assert!(compiled.is_ok() || is_another_error, "{name}");
                }
            }
        }
    });
    checks.unwrap().join().unwrap();
}

#[test]
fn defaults_and_strict_forms_of_huge_definitions_are_bounded() {
    let numbered_properties = |count: usize, property: &Value| -> Map<_, _> {
        (0..count)
            .map(|index| (format!("p{index}"), property.clone()))
            .collect()
    };
    let map_schema = json!({"type": "object", "default": []});
    let long_names =
        json!({"n".repeat(1_000_000): {"properties": numbered_properties(5_000, &map_schema)}});
    let names: Vec<_> = (0..100_000).map(|index| format!("p{index}")).collect();
    let started_at = Instant::now();
    for mut definition in [
        json!({"properties": numbered_properties(10_000, &map_schema)}),
        json!({"properties": long_names}),
        json!({"properties": numbered_properties(3_000, &json!({
            "anyOf": vec![map_schema; 50], "default": {"a": []},
        }))}),
    ] {
        super::coerce_defaults(&mut definition);
    }
    let string_schema = json!({"type": "string"});
    let properties = numbered_properties(100_000, &string_schema);
    let schema_with_required_names =
        json!({"type": "object", "properties": properties, "required": names});
    assert!(super::to_strict_schema(&schema_with_required_names).is_none());
    assert!(started_at.elapsed() < Duration::from_secs(20));
}

#[test]
fn nulls_and_long_lists_of_required_names_are_not_checked_inline() {
    let required_names: Vec<_> = (0..40_000).map(|index| format!("r{index}")).collect();
    let schema = json!({"additionalProperties": {"type": "string"}, "required": required_names});
    let compiled = CompiledSchema::compile(&schema).unwrap();
    let null_members = (0..1_500).map(|index| (format!("n{index}"), Value::Null));
    let mut arguments: Map<_, _> = null_members.collect();
    let started_at = Instant::now();
    let brief_outcome = compiled.validate_briefly(&mut arguments, super::OptionalNull::Absent);
    assert_eq!(brief_outcome, None);
    assert!(started_at.elapsed() < Duration::from_secs(1));
    // An error message does not repeat a huge list.
    let enum_schema = json!({"properties": {"a": {"enum": required_names}}});
    let compiled_enum = CompiledSchema::compile(&enum_schema).unwrap();
    let mut invalid_arguments = json!({"a": "x"}).as_object().cloned().unwrap();
    let violation = compiled_enum
        .validate(&mut invalid_arguments)
        .unwrap_err()
        .to_string();
    assert!(violation.len() < 5_000, "{violation}");
    assert!(violation.ends_with("..."), "{violation}");
}
