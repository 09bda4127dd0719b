//! Evaluates any text with the calculator: the answer is a number, or an error of bounded length.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pillion_builtins::calculator::{CalculatedValue, evaluate};

fn is_finite(value: &CalculatedValue) -> bool {
    match value {
        CalculatedValue::Int(_) => true,
        CalculatedValue::Float(float) => float.is_finite(),
        CalculatedValue::List(items) => items.iter().all(is_finite),
    }
}

fuzz_target!(|expression: &str| {
    match evaluate(expression) {
        Ok(value) => {
            assert!(is_finite(&value));
            assert!(!value.to_string().is_empty());
            assert!(!value.to_json().is_null());
        }
        Err(error) => assert!(error.to_string().len() < 600),
    }
});
