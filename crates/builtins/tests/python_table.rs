//! Compares the calculator with a table of Python's results, which `python/generate.py` generates
//! (requirement D1). The test itself does not need Python.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "clippy's exception for tests does not reach the functions beside them"
)]

use pillion_builtins::calculator::{CalculatedValue, CalculatorError, evaluate};

const TABLE: &str = include_str!("python/table.tsv");

/// The results of these functions come from the C library, whose last bits may differ between
/// platforms.
const FROM_LIBM: [&str; 5] = ["sin", "cos", "tan", "log", "**"];

struct Row<'a> {
    expression: &'a str,
    kind: &'a str,
    value: &'a str,
    text: &'a str,
}

fn rows() -> impl Iterator<Item = Row<'static>> {
    TABLE
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let columns: Vec<_> = line.split('\t').collect();
            let [expression, kind, value, text] = columns[..] else {
                panic!("not a row of four columns: {line:?}");
            };
            Row {
                expression,
                kind,
                value,
                text,
            }
        })
}

/// Returns whether a result equals Python's result, or nearly equals it for functions of the C
/// library.
fn agrees(value: &CalculatedValue, row: &Row<'_>) -> bool {
    match value {
        CalculatedValue::Int(int) => row.kind == "int" && row.value == int.to_string(),
        CalculatedValue::Float(float) => {
            let expected: f64 = row.value.parse().unwrap();
            let exact = float.to_bits() == expected.to_bits();
            let close = FROM_LIBM.iter().any(|name| row.expression.contains(name))
                && (float - expected).abs() <= 1e-12 * expected.abs();
            row.kind == "float" && (exact || close)
        }
        CalculatedValue::List(_) => {
            row.kind == "list" && row.value == format!("{}", value.to_json()).replace(',', ", ")
        }
    }
}

fn kind_of(error: &CalculatorError) -> &'static str {
    match error {
        CalculatorError::Invalid { .. } => "invalid",
        CalculatorError::UnknownName { .. } => "unknown",
        CalculatorError::Arithmetic(_) => "arithmetic",
        _ => "another error",
    }
}

#[test]
fn d1_agrees_with_python() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for row in rows() {
        count += 1;
        let expected = format!("{} {} {}", row.kind, row.value, row.text);
        match evaluate(row.expression) {
            Ok(value) if agrees(&value, &row) && value.to_string() == row.text => {}
            Err(error) if kind_of(&error) == row.kind => {}
            Ok(value) => wrong.push(format!("{}: {value:?}, not {expected}", row.expression)),
            Err(error) => wrong.push(format!("{}: {error}, not {expected}", row.expression)),
        }
    }
    assert!(count > 1_500, "the table has only {count} rows");
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
