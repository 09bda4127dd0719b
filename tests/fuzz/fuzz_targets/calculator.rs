//! Any text for the calculator: the answer is a number, or an error of bounded length.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pillion_builtins::calculator::{Answer, evaluate};

fn is_finite(answer: &Answer) -> bool {
    match answer {
        Answer::Int(_) => true,
        Answer::Float(float) => float.is_finite(),
        Answer::List(items) => items.iter().all(is_finite),
    }
}

fuzz_target!(|expression: &str| {
    match evaluate(expression) {
        Ok(answer) => {
            assert!(is_finite(&answer));
            assert!(!answer.to_string().is_empty());
            assert!(!answer.to_json().is_null());
        }
        Err(error) => assert!(error.to_string().len() < 600),
    }
});
