//! The tool `calculator` (requirement D1): the format of results, rejected input, and intentional
//! differences from Python. `python_table.rs` tests the agreement with Python.

#![expect(
    clippy::unwrap_used,
    reason = "clippy's exception for tests does not reach the functions beside them"
)]

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pillion_builtins::Calculator;
use pillion_builtins::calculator::{CalculatedValue, MAX_DEPTH, MAX_EXPRESSION_BYTES, evaluate};
use pillion_core::tool::{CallContext, ErrorCode, Tool, ToolFailure, ToolOutput};
use serde_json::json;

async fn call(expression: &str) -> Result<ToolOutput, ToolFailure> {
    let arguments = json!({"expression": expression})
        .as_object()
        .unwrap()
        .clone();
    Arc::new(Calculator::default())
        .call(arguments, CallContext::default())
        .await
}

fn value(expression: &str) -> CalculatedValue {
    evaluate(expression).unwrap()
}

fn error(expression: &str) -> String {
    evaluate(expression).unwrap_err().to_string()
}

#[test]
fn d1_definition() {
    let calculator = Calculator::default();
    let definition = calculator.definition();
    assert_eq!(definition.name().as_str(), "calculator");
    assert_eq!(definition.category(), "math");
    assert_eq!(definition.input_schema()["required"], json!(["expression"]));
}

#[tokio::test]
async fn d1_text_for_the_model_and_number_for_programs() {
    let output = call("2 + 2 * (10 / 5)").await.unwrap();
    assert_eq!(output.result, json!("6"));
    assert_eq!(
        output.data.unwrap().to_string(),
        r#"{"expression":"2 + 2 * (10 / 5)","result":6.0}"#
    );
    assert_eq!(output.metadata["type"], json!("float"));

    let output = call("2 + 2").await.unwrap();
    assert_eq!(output.result, json!("4"));
    assert_eq!(output.data.unwrap()["result"].to_string(), "4");
    assert_eq!(output.metadata["type"], json!("int"));

    let output = call("[1, 2.0, (3,)]").await.unwrap();
    assert_eq!(output.result, json!("[1, 2, [3]]"));
    assert_eq!(output.data.unwrap()["result"].to_string(), "[1,2.0,[3]]");
    assert_eq!(output.metadata["type"], json!("list"));
}

#[tokio::test]
async fn d1_errors_are_invalid_input() {
    for (expression, message) in [
        ("", "No expression provided"),
        (" \t\n", "No expression provided"),
        ("2 +", "Invalid expression: 2 +"),
        ("foo", "Unknown function or variable: foo"),
        ("1/0", "Calculation error: division by zero"),
        (
            "2 ^ 3",
            "Invalid expression: 2 ^ 3 (use ** for powers, not ^)",
        ),
        ("import os", "Forbidden keyword: import"),
    ] {
        let failure = call(expression).await.unwrap_err();
        assert_eq!(failure.message, message, "{expression:?}");
        assert_eq!(failure.code, ErrorCode::InvalidInput, "{expression:?}");
    }
}

#[test]
fn d1_forbidden_words_are_whole_words_and_are_reported_first() {
    for word in ["import", "exec", "eval", "open", "file", "compile"] {
        assert_eq!(
            error(&format!("1 / 0 + {word}(")),
            format!("Forbidden keyword: {word}")
        );
    }
    for (expression, message) in [
        ("__import__('os').system('ls')", "Forbidden keyword: import"),
        ("OPEN", "Forbidden keyword: open"),
        ("profile + 1", "Unknown function or variable: profile"),
        ("evaluate(1)", "Unknown function or variable: evaluate"),
    ] {
        assert_eq!(error(expression), message);
    }
}

#[test]
fn d1_ints_beyond_64_bits_become_floats() {
    assert_eq!(value("9223372036854775807"), CalculatedValue::Int(i64::MAX));
    for (expression, float) in [
        ("9223372036854775807 + 1", 2f64.powi(63)),
        ("-9223372036854775807 - 2", -(2f64.powi(63))),
        ("2**63", 2f64.powi(63)),
        ("2**100", 2f64.powi(100)),
        ("9223372036854775808", 2f64.powi(63)),
        ("4611686018427387904 * 2", 2f64.powi(63)),
        ("abs(-9223372036854775807 - 1)", 2f64.powi(63)),
        ("(-9223372036854775807 - 1) // -1", 2f64.powi(63)),
        ("round(9223372036854775807, -19)", 1e19),
        // In Python, the result of the negation would be an int again; here, the power is already a
        // float.
        ("-2**63", -(2f64.powi(63))),
    ] {
        assert_eq!(
            value(expression),
            CalculatedValue::Float(float),
            "{expression}"
        );
    }
    assert_eq!(value("2**100").to_string(), "1.26765e+30");
    assert_eq!(
        value("sum([9223372036854775807, 1, -1])"),
        CalculatedValue::Int(i64::MAX)
    );
}

#[test]
fn d1_infinity_and_complex_numbers_are_errors() {
    for expression in [
        "1e308 * 10",
        "1e999",
        "10.0**400",
        "9**9**9",
        "-(10**400)",
        "round(1.7e308, -308)",
    ] {
        assert_eq!(
            error(expression),
            "Calculation error: number too large",
            "{expression}"
        );
    }
    assert_eq!(
        error("(-8) ** (1/3)"),
        "Calculation error: the result is a complex number"
    );
    assert_eq!(error("sqrt(-1)"), "Calculation error: math domain error");
}

#[test]
fn d1_beyond_python() {
    assert_eq!(value("15% of 47.5").to_string(), "7.125");
    assert_eq!(value("100 + 15 % of 200").to_string(), "130");
    assert_eq!(value("sum(1, 2, 3)"), CalculatedValue::Int(6));
    assert_eq!(value("2\n+ 2"), CalculatedValue::Int(4));
    assert_eq!(error("15 % off"), "Unknown function or variable: off");
}

#[test]
fn d1_python_syntax_beyond_arithmetic_is_rejected() {
    for input in [
        "1 < 2",
        "1 == 1",
        "1 = 1",
        "x = 1",
        "1 & 2",
        "1 << 2",
        "~2",
        "1; 2",
        "1 # 2",
        "'a'",
        "\"a\"",
        "{1}",
        "1:2",
        "a.b",
        "(1).real",
        "lambda: 1",
        "1 if 1 else 2",
        "not 1",
        "1 and 2",
        "0x10",
        "1j",
        "[1, 2](0)",
        "[1, 2][0]",
        "2(3)",
        "(2)(3)",
        "1 @ 2",
        "2 × 3",
        "½",
        "２ + 2",
    ] {
        assert_eq!(error(input), format!("Invalid expression: {input}"));
    }
    assert_eq!(error("True"), "Unknown function or variable: True");
    for (input, reason) in [
        ("[1] + [2]", "+ needs a number, not a list"),
        ("[1] * 3", "* needs a number, not a list"),
        ("max([1], [2])", "max needs a number, not a list"),
        ("sin", "sin is a function: write sin(...)"),
        ("pi(2)", "pi is a number, not a function"),
        ("abs(1, 2)", "abs() takes one argument (2 given)"),
    ] {
        assert_eq!(error(input), format!("Calculation error: {reason}"));
    }
}

#[test]
fn d1_hostile_expressions_fail_quickly() {
    let started = Instant::now();
    for (expression, reason) in [
        ("(".repeat(100_000), "(longer than 8192 bytes)"),
        (vec!["1"; 200_000].join("+"), "(longer than 8192 bytes)"),
        ("(".repeat(4_000), "(nested more than 64 deep)"),
        ("-".repeat(8_000) + "1", "(nested more than 64 deep)"),
        (vec!["2"; 2_000].join("**"), "(nested more than 64 deep)"),
        ("abs(".repeat(2_000), "(nested more than 64 deep)"),
        ("[".repeat(8_000), "(nested more than 64 deep)"),
        ("9".repeat(8_000), "number too large"),
        (format!("1e{}", "9".repeat(8_000)), "number too large"),
    ] {
        let message = error(&expression);
        assert!(message.ends_with(reason), "{message}");
        assert!(message.len() < 200, "{message}");
    }
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn d1_long_and_deep_expressions_within_the_bounds_work() {
    let terms = MAX_EXPRESSION_BYTES / 2;
    assert_eq!(
        value(&vec!["1"; terms].join("+")),
        CalculatedValue::Int(terms as i64)
    );
    assert_eq!(value(&vec!["1"; terms].join("*")), CalculatedValue::Int(1));

    // This is the deepest tree: every level is a sum, a product, a power and a call.
    let level = "1+2*max(1,";
    let deep = format!("{}1{}", level.repeat(MAX_DEPTH), ",)**1".repeat(MAX_DEPTH));
    // The stack is half of a thread's default stack; the test runs without compiler optimizations.
    let small_stack = thread::Builder::new().stack_size(1024 * 1024);
    let value = small_stack.spawn(move || evaluate(&deep).unwrap()).unwrap();
    assert!(matches!(value.join().unwrap(), CalculatedValue::Float(_)));
}
