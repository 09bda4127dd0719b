//! No text makes the calculator or the dice panic, hang or return an impossible result
//! (requirements D1 and D3). `tests/fuzz` runs the same checks on more input.

use std::time::{Duration, Instant};

use pillion_builtins::calculator::{CalculatedValue, evaluate};
use pillion_builtins::roll_dice::{Dice, Notation};
use proptest::prelude::*;

/// The deadline is long enough for any machine under load, and short enough to detect a hang.
const DEADLINE: Duration = Duration::from_secs(10);

fn is_finite(value: &CalculatedValue) -> bool {
    match value {
        CalculatedValue::Int(_) => true,
        CalculatedValue::Float(float) => float.is_finite(),
        CalculatedValue::List(items) => items.iter().all(is_finite),
    }
}

fn calculate(expression: &str) -> Result<(), TestCaseError> {
    let started = Instant::now();
    match evaluate(expression) {
        Ok(value) => {
            prop_assert!(is_finite(&value), "{expression}: {value:?}");
            prop_assert!(!value.to_string().is_empty());
        }
        Err(error) => prop_assert!(error.to_string().len() < 600, "{expression}"),
    }
    prop_assert!(started.elapsed() < DEADLINE);
    Ok(())
}

/// Generates expressions from the tokens of the grammar, so that many of them are valid.
fn expressions() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "0",
        "1",
        "2",
        "7",
        "1.5",
        ".1",
        "1e308",
        "5e-324",
        "9223372036854775807",
        "64",
        "-1",
        "pi",
        "e",
        "x",
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "**",
        "^",
        "% of ",
        "(",
        ")",
        "[",
        "]",
        ",",
        " ",
        "min(",
        "max(",
        "sum(",
        "abs(",
        "round(",
        "pow(",
        "log(",
        "log10(",
        "sqrt(",
        "sin(",
        "tan(",
        "import",
        "_",
        ".",
        "é",
    ];
    prop::collection::vec(prop::sample::select(WORDS), 0..60).prop_map(|words| words.concat())
}

fn notations() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "d",
        "D",
        "1",
        "2",
        "20",
        "100",
        "1000",
        "6",
        "kh",
        "kl",
        "+",
        "-",
        " ",
        "advantage",
        "disadvantage",
        "0",
        "99999999999",
        "x",
    ];
    prop::collection::vec(prop::sample::select(WORDS), 0..12).prop_map(|words| words.concat())
}

fn roll(text: &str) -> Result<(), TestCaseError> {
    let notation: Notation = match text.parse() {
        Ok(notation) => notation,
        Err(error) => {
            prop_assert!(error.to_string().len() < 600);
            return Ok(());
        }
    };
    let started = Instant::now();
    let roll = notation.roll(&mut Dice::from_seed(1));
    prop_assert!(
        roll.rolls
            .iter()
            .all(|face| (1..=notation.sides).contains(face))
    );
    let sum: i64 = roll.kept.iter().copied().map(i64::from).sum();
    prop_assert_eq!(roll.total, sum + i64::from(notation.modifier));
    prop_assert!(roll.to_string().starts_with("Rolled "));
    // The canonical notation gives the same roll.
    let again: Notation = notation
        .to_string()
        .parse()
        .expect("one spelling of a notation");
    prop_assert_eq!(again.roll(&mut Dice::from_seed(1)).rolls, roll.rolls);
    prop_assert!(started.elapsed() < DEADLINE);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn d1_any_text(text in any::<String>()) {
        calculate(&text)?;
    }

    #[test]
    fn d1_any_words_of_the_grammar(expression in expressions()) {
        calculate(&expression)?;
    }

    #[test]
    fn d1_any_two_ints(left: i64, right: i64, operator in prop::sample::select(&["+", "-", "*", "/", "//", "%", "**"][..])) {
        calculate(&format!("({left}) {operator} ({right})"))?;
        calculate(&format!("pow({left}, {right}, {left}), round({left}, {right}), log({left}, {right})"))?;
    }

    #[test]
    fn d1_any_two_floats(left: f64, right: f64, operator in prop::sample::select(&["+", "-", "*", "/", "//", "%", "**"][..])) {
        calculate(&format!("({left:e}) {operator} ({right:e})"))?;
    }

    #[test]
    fn d1_any_rounding(float: f64, digits in -400i64..400) {
        calculate(&format!("round({float:e}, {digits})"))?;
    }

    #[test]
    fn d3_any_text(text in any::<String>()) {
        roll(&text)?;
    }

    #[test]
    fn d3_any_words_of_the_grammar(text in notations()) {
        roll(&text)?;
    }
}
