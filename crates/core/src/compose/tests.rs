#![expect(
    clippy::needless_pass_by_value,
    reason = "what json! makes is handed over"
)]

use proptest::prelude::*;
use serde_json::json;

use super::pointer::Pointer;
use super::template::{ReferenceScope, Template};
use super::*;

fn declared(steps: Value) -> Value {
    json!({"name": "both", "description": "A test", "steps": steps})
}

fn fault(declared: Value) -> String {
    Composition::parse(declared).unwrap_err().to_string()
}

fn call(name: &str, arguments: Value) -> Value {
    json!({"name": name, "tool": "echo", "arguments": arguments})
}

fn from(pointer: &str) -> Value {
    json!({"x": {"$from": pointer}})
}

#[test]
fn p_invalid_declarations_are_rejected_with_the_path() {
    let empty = || json!({});
    let a = |arguments: Value| json!([call("a", arguments)]);
    let reading = |pointer: &str| json!([call("a", from(pointer))]);
    let conditional = |condition: Value| json!({"if": condition, "then": [call("a", empty())]});
    let parallel = json!({"parallel": [call("a", empty()), call("b", from("/steps/a"))]});
    let two_sources = json!({"x": {"$from": "/input", "y": 1}});
    let misspelled = json!({"x": [{"$form": "/input"}]});
    for (steps, expected) in [
        (json!([]), "steps: the list of steps is empty"),
        (
            json!([{"name": "a"}]),
            "steps[0]: a step must be one of: a call",
        ),
        (
            json!([{"tool": "echo"}]),
            "steps[0]: a call must have 'name' and 'tool'",
        ),
        (
            json!([{"name": "a", "tool": "9x"}]),
            "steps[0]: Invalid tool name '9x'",
        ),
        (
            json!([{"name": "a", "tool": "echo", "argument": {}}]),
            "unknown field `argument`",
        ),
        (a(json!([1])), "steps[0]: 'arguments' must be an object"),
        (
            json!([call("a", empty()), call("a", empty())]),
            "steps: the step name 'a' is used twice",
        ),
        (
            reading("/steps/b/data"),
            "steps[0].arguments: '/steps/b/data': there is no step 'b'",
        ),
        (
            json!([call("a", from("/steps/b")), call("b", empty())]),
            "steps[0].arguments: '/steps/b': step 'b' does not run before this step",
        ),
        (reading("/steps/a"), "step 'a' does not run before"),
        (
            json!([parallel, call("c", empty())]),
            "steps[0].parallel[1].arguments: '/steps/a': step 'a' does not run before this step",
        ),
        (
            json!([call("a", empty()), call("b", from("/steps/a/value"))]),
            "steps[1].arguments.x: '/steps/a/value': a step has 'result', 'data' and 'text'",
        ),
        (
            reading("input/x"),
            "steps[0].arguments.x: 'input/x' is not a reference",
        ),
        (reading("/input/~2"), "is not a reference"),
        (
            a(misspelled),
            "steps[0].arguments.x[0]: unknown key '$form'",
        ),
        (a(two_sources), "only 'default' is allowed beside '$from'"),
        (
            json!([conditional(json!({"exists": "/input/x"}))]),
            "output: the composed tool needs an 'output'",
        ),
        (
            json!([
                conditional(json!({"exists": "/input/x"})),
                call("b", from("/steps/a/data"))
            ]),
            "step 'a' runs only under a condition",
        ),
        (
            json!([conditional(json!({"equal": [1, 1]}))]),
            "steps[0].if: unknown condition 'equal'",
        ),
        (
            json!([conditional(json!({"less": [1]}))]),
            "steps[0].if: 'less' must be an array of two values",
        ),
        (
            json!([
                conditional(json!({"exists": "/steps/z"})),
                call("b", empty())
            ]),
            "steps[0].if: '/steps/z': there is no step 'z'",
        ),
    ] {
        let error = fault(declared(steps));
        assert!(error.contains(expected), "{error}\n  is not\n{expected}");
    }
    let mut grants = declared(json!([call("a", json!({}))]));
    grants["grants"] = json!(["other"]);
    let expected = "grants: no step calls the granted tool 'other'";
    assert_eq!(fault(grants), expected);
    let mut nameless = declared(json!([call("a", json!({}))]));
    nameless["name"] = json!("");
    assert!(fault(nameless).contains("Invalid tool name"));
}

#[test]
fn p_the_size_of_a_composition_is_limited() {
    let calls: Vec<_> = (0..=MAX_STEPS)
        .map(|number| call(&format!("s{number}"), json!({})))
        .collect();
    let error = fault(declared(json!(calls)));
    let expected = "the composed tool declares 65 calls";
    assert!(error.contains(expected), "{error}");
    let mut deep = call("a", json!({}));
    for _ in 0..=MAX_DEPTH {
        deep = json!({"sequence": [deep]});
    }
    let error = fault(declared(json!([deep])));
    assert!(error.contains("groups of steps are nested"), "{error}");
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let error = fault(declared(json!([call("a", json!({"x": deep}))])));
    assert!(error.contains("nested more than"), "{error}");
}

#[test]
fn p_a_reference_to_a_conditional_step_needs_a_default() {
    let steps = json!([
        {"if": {"exists": "/input/x"}, "then": [call("a", json!({})), call("b", from("/steps/a"))]},
        call("c", json!({"x": {"$from": "/steps/b/text", "default": "none"}})),
    ]);
    Composition::parse(declared(steps)).unwrap();
}

fn composition(name: &str, calls: &[&str]) -> Composition {
    let steps: Vec<_> = calls
        .iter()
        .enumerate()
        .map(|(number, tool)| json!({"name": format!("s{number}"), "tool": tool}))
        .collect();
    let declared = json!({"name": name, "description": "A test", "steps": steps});
    Composition::parse(declared).unwrap()
}

#[test]
fn p_a_cycle_is_rejected_and_its_path_is_named() {
    let fine = [
        composition("a", &["b", "c", "elsewhere"]),
        composition("b", &["c", "c"]),
        composition("c", &["calculator"]),
    ];
    check_cycles(&fine).unwrap();
    let round = [
        composition("z", &["a"]),
        composition("a", &["b"]),
        composition("b", &["echo", "c"]),
        composition("c", &["a"]),
    ];
    let error = check_cycles(&round).unwrap_err().to_string();
    let expected = "a: composed tools call each other in a cycle: a -> b -> c -> a";
    assert_eq!(error, expected);
    let own = check_cycles(&[composition("a", &["a"])]).unwrap_err();
    assert!(own.to_string().ends_with("a -> a"), "{own}");
}

#[test]
fn p_the_size_of_nested_compositions_is_limited() {
    let mut all = vec![composition("t0", &["calculator"; 10])];
    for number in 1..4 {
        let below = format!("t{}", number - 1);
        all.push(composition(&format!("t{number}"), &[below.as_str(); 10]));
    }
    let error = check_cycles(&all).unwrap_err().to_string();
    assert!(error.starts_with("t2: one call would make 1110"), "{error}");
    let names: Vec<_> = (0..10).map(|number| format!("n{number}")).collect();
    let chain: Vec<_> = names
        .windows(2)
        .map(|pair| composition(&pair[0], &[&pair[1]]))
        .collect();
    let error = check_cycles(&chain).unwrap_err().to_string();
    assert!(error.contains("more than 8 levels"), "{error}");
}

fn fill(template: Value, input: &Value) -> Result<Value, String> {
    let template = Template::parse(template).map_err(|(path, reason)| format!("{path}{reason}"))?;
    let values = json!({"result": 1, "data": {"n": [5, null]}, "text": "1"});
    let steps = [("a".to_owned(), values)];
    let scope = ReferenceScope {
        input,
        steps: &steps.into(),
    };
    template.fill(&scope).map_err(|pointer| pointer.to_string())
}

#[test]
fn p_references_are_filled_in_and_can_be_escaped() {
    let input = json!({"city": "Ulm", "a/b~c": {"": [10, 20]}, "flag": false});
    for (template, value) in [
        (json!({"$from": "/input/city"}), Ok(json!("Ulm"))),
        (json!({"$from": "/input/a~1b~0c//1"}), Ok(json!(20))),
        (json!({"$from": "/input"}), Ok(input.clone())),
        (json!({"$from": "/steps/a/data/n/0"}), Ok(json!(5))),
        (json!({"$from": "/steps/a/data/n/1"}), Ok(json!(null))),
        (
            json!({"$from": "/steps/a/data/n/01"}),
            Err("/steps/a/data/n/01"),
        ),
        (
            json!({"$from": "/steps/a/data/n/-"}),
            Err("/steps/a/data/n/-"),
        ),
        (json!({"$from": "/input/none"}), Err("/input/none")),
        (
            json!({"$from": "/input/none", "default": null}),
            Ok(json!(null)),
        ),
        (
            json!({"$text": ["In ", {"$from": "/input/city"}, ": ", {"$from": "/input/flag"}]}),
            Ok(json!("In Ulm: false")),
        ),
        (
            json!({"$literal": {"$from": "/input/city"}}),
            Ok(json!({"$from": "/input/city"})),
        ),
        (json!("/input/city"), Ok(json!("/input/city"))),
        (
            json!({"q": ["$from", {"deep": {"$from": "/input/flag"}}]}),
            Ok(json!({"q": ["$from", {"deep": false}]})),
        ),
    ] {
        let filled = fill(template.clone(), &input);
        assert_eq!(filled, value.map_err(str::to_owned), "{template}");
    }
}

/// Generates any JSON of limited size.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::hash_map("[$a-z/~0-9]{0,4}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Collects the pointers of all values in `value`.
fn pointers(value: &Value, here: &str, all: &mut Vec<String>) {
    all.push(here.to_owned());
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(members) => members
            .iter()
            .for_each(|(key, value)| pointers(value, &format!("{here}/{}", escaped(key)), all)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(path, value)| pointers(value, &format!("{here}/{path}"), all)),
        _ => {}
    }
}

proptest! {
    #[test]
    fn p_a_literal_is_never_read_as_a_reference(value in json_value()) {
        let template = json!({"x": {"$literal": value}});
        prop_assert_eq!(fill(template, &json!({})), Ok(json!({"x": value})));
    }

    #[test]
    fn p_every_value_of_the_input_has_a_reference(value in json_value()) {
        let mut all = Vec::new();
        pointers(&value, "", &mut all);
        for pointer in all {
            let reference = json!({"$from": format!("/input{pointer}")});
            prop_assert_eq!(fill(reference, &value), Ok(value.pointer(&pointer).unwrap().clone()));
        }
    }

    #[test]
    fn p_no_text_makes_reading_a_reference_panic(text in "\\PC{0,24}|/(input|steps)[/~01a-]{0,12}") {
        if let Ok(pointer) = Pointer::parse(&text) {
            prop_assert_eq!(Pointer::parse(&pointer.to_string()), Ok(pointer));
        }
    }

    #[test]
    fn p_no_template_makes_reading_or_filling_panic(template in json_value(), input in json_value()) {
        let _ = fill(template, &input);
    }
}
