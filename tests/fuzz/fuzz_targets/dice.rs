//! Rolls any text as a dice notation: the result is a consistent roll, or an error of bounded
//! length.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pillion_builtins::roll_dice::{Dice, Notation, NotationError};

fuzz_target!(|text: &str| {
    let parsed: Result<Notation, NotationError> = text.parse();
    let notation = match parsed {
        Ok(notation) => notation,
        Err(error) => {
            assert!(error.to_string().len() < 600);
            return;
        }
    };
    let roll = notation.roll(&mut Dice::from_seed(1));
    assert!(
        roll.rolls
            .iter()
            .all(|face| (1..=notation.sides).contains(face))
    );
    let sum: i64 = roll.kept.iter().copied().map(i64::from).sum();
    assert_eq!(roll.total, sum + i64::from(notation.modifier));
    assert!(roll.to_string().starts_with("Rolled "));
    let spelling = notation.to_string();
    assert_eq!(
        spelling.parse().map(|again: Notation| again.to_string()),
        Ok(spelling)
    );
});
