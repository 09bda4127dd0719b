//! The tool `roll_dice` (requirement D3).

#![expect(
    clippy::unwrap_used,
    reason = "clippy's exception for tests does not reach the functions beside them"
)]

use std::sync::Arc;

use pillion_builtins::RollDice;
use pillion_builtins::roll_dice::{Advantage, Crit, Dice, KeepRule, Notation, Roll};
use pillion_core::tool::{CallContext, ErrorCode, Tool, ToolFailure, ToolOutput};
use serde_json::{Value, json};

async fn call(arguments: Value) -> Result<ToolOutput, ToolFailure> {
    Arc::new(RollDice::default())
        .call(
            arguments.as_object().unwrap().clone(),
            CallContext::default(),
        )
        .await
}

async fn data(arguments: Value) -> Value {
    call(arguments).await.unwrap().data.unwrap()
}

fn notation(text: &str) -> Notation {
    text.parse().unwrap()
}

#[test]
fn d3_definition() {
    let tool = RollDice::default();
    let definition = tool.definition();
    assert_eq!(definition.name().as_str(), "roll_dice");
    assert_eq!(definition.category(), "fun");
    let names: Vec<_> = definition
        .parameters()
        .iter()
        .map(|each| each.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "notation",
            "formula",
            "dice",
            "advantage",
            "disadvantage",
            "seed",
            "reason"
        ]
    );
    assert_eq!(definition.input_schema()["required"], json!([]));
}

#[test]
fn d3_notation() {
    let plain = Notation {
        count: 4,
        sides: 6,
        keep: None,
        modifier: 0,
        advantage: None,
    };
    assert_eq!(notation("4d6"), plain);
    assert_eq!(notation("d6"), Notation { count: 1, ..plain });
    assert_eq!(
        notation("4D6KH3 - 2"),
        Notation {
            keep: Some(KeepRule::Highest(3)),
            modifier: -2,
            ..plain
        }
    );
    assert_eq!(
        notation(" 4 d 6 k l 1 "),
        Notation {
            keep: Some(KeepRule::Lowest(1)),
            ..plain
        }
    );
    assert_eq!(
        notation("1d20+5 Disadvantage"),
        Notation {
            count: 1,
            sides: 20,
            modifier: 5,
            advantage: Some(Advantage::Disadvantage),
            ..plain
        }
    );
    assert_eq!(notation("100d1000+1000000").to_string(), "100d1000+1000000");
    assert_eq!(
        notation("4d6 advantage").to_string(),
        "4d6",
        "only a single d20 has advantage"
    );
}

#[tokio::test]
async fn d3_invalid_notations_are_rejected() {
    for (text, message) in [
        ("", "No dice notation provided"),
        ("  ", "No dice notation provided"),
        ("abc", "Invalid dice notation: abc"),
        (" ABC ", "Invalid dice notation: abc"),
        ("2d", "Invalid dice notation: 2d"),
        ("d", "Invalid dice notation: d"),
        ("2x6", "Invalid dice notation: 2x6"),
        ("-1d6", "Invalid dice notation: -1d6"),
        ("1d6+", "Invalid dice notation: 1d6+"),
        ("1d6+1+1", "Invalid dice notation: 1d6+1+1"),
        ("1d6kh", "Invalid dice notation: 1d6kh"),
        ("1d6+1d6", "Invalid dice notation: 1d6+1d6"),
        ("1d20 luck", "Invalid dice notation: 1d20 luck"),
        ("１d6", "Invalid dice notation: １d6"),
        ("101d6", "Too many dice (max 100)"),
        ("99999999999999999999d6", "Too many dice (max 100)"),
        ("1d1001", "Too many sides (max 1000)"),
        ("1d99999999999999999999", "Too many sides (max 1000)"),
        ("0d6", "Must roll at least 1 die"),
        ("1d0", "Dice must have at least 1 side"),
        ("4d6kh0", "Must keep at least 1 die"),
        ("1d6+1000001", "Modifier too large (max 1000000)"),
        (
            "1d6-99999999999999999999",
            "Modifier too large (max 1000000)",
        ),
    ] {
        let failure = call(json!({"notation": text})).await.unwrap_err();
        assert_eq!(failure.message, message, "{text:?}");
        assert_eq!(failure.code, ErrorCode::InvalidInput, "{text:?}");
    }
    let failure = call(json!({"notation": "9".repeat(1_000_000)}))
        .await
        .unwrap_err();
    assert_eq!(
        failure.message,
        format!("Invalid dice notation: {}…", "9".repeat(100))
    );
}

#[tokio::test]
async fn d3_the_notation_parameter_has_three_names() {
    for name in ["notation", "formula", "dice"] {
        let data = data(json!({name: "2d6+3", "seed": 5})).await;
        assert_eq!(data["expr"], json!("2d6+3"));
    }
    let none = call(json!({"seed": 1})).await.unwrap_err();
    assert_eq!(none.message, "No dice notation provided");
    let null = data(json!({"notation": null, "formula": "", "dice": "d6"})).await;
    assert_eq!(null["expr"], json!("1d6"));
    let several = call(json!({"notation": "1d6", "dice": "1d8"}))
        .await
        .unwrap_err();
    assert_eq!(
        several.message,
        "Pass the dice only once: as 'notation', 'formula' or 'dice'"
    );
    assert_eq!(several.code, ErrorCode::InvalidInput);
}

#[test]
fn d3_text_for_the_model() {
    let roll = |notation: &str, rolls: &[u32], kept: &[u32], total| Roll {
        notation: notation.parse().unwrap(),
        rolls: rolls.to_vec(),
        kept: kept.to_vec(),
        total,
        crit: Crit::None,
    };
    for (roll, text) in [
        (roll("1d20+5", &[17], &[17], 22), "Rolled 1d20+5: **22**"),
        (
            roll("2d6+3", &[4, 2], &[4, 2], 9),
            "Rolled 2d6+3: [4, 2] +3 = **9**",
        ),
        (
            roll("2d6-1", &[4, 2], &[4, 2], 5),
            "Rolled 2d6-1: [4, 2] -1 = **5**",
        ),
        (
            roll("4d6kh3", &[6, 4, 3, 2], &[6, 4, 3], 13),
            "Rolled 4d6kh3: [6, 4, 3, 2] → kept [6, 4, 3] = **13**",
        ),
        (
            roll("1d20+5 advantage", &[12, 18, 18], &[18], 23),
            "Rolled 1d20+5 advantage: [12, 18] → kept [18] +5 = **23**",
        ),
    ] {
        assert_eq!(roll.to_string(), text);
    }
}

#[tokio::test]
async fn d3_data() {
    let output = call(json!({"notation": "4d6kh3+2", "seed": 42, "reason": "Strength"}))
        .await
        .unwrap();
    assert_eq!(
        output.data.unwrap(),
        json!({
            "rolls": [6, 2, 5, 2], "kept": [6, 5, 2], "total": 15, "crit": "none", "expr": "4d6kh3+2",
            "count": 4, "sides": 6, "modifier": 2, "reason": "Strength",
        })
    );
    assert_eq!(
        output.result,
        json!("Rolled 4d6kh3+2: [6, 2, 5, 2] → kept [6, 5, 2] +2 = **15**")
    );
}

#[tokio::test]
async fn d3_keeping_more_dice_than_rolled_keeps_all() {
    let high = data(json!({"dice": "3d6kh9", "seed": 1})).await;
    assert_eq!(high["kept"].as_array().unwrap().len(), 3);
    let low = notation("5d100kl2").roll(&mut Dice::from_seed(9));
    let mut sorted = low.rolls.clone();
    sorted.sort();
    assert_eq!(low.kept, sorted[..2]);
    assert_eq!(low.total, i64::from(sorted[0] + sorted[1]));
}

#[tokio::test]
async fn d3_advantage_by_flag_and_by_word() {
    for seed in 0..50 {
        let by_flag = data(json!({"formula": "1d20+2", "advantage": true, "seed": seed})).await;
        let by_word = data(json!({"formula": "1d20+2 advantage", "seed": seed})).await;
        assert_eq!(by_flag, by_word);
        let rolls: Vec<_> = by_flag["rolls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|roll| roll.as_i64().unwrap())
            .collect();
        assert_eq!(rolls.len(), 3);
        assert_eq!(rolls[2], rolls[0].max(rolls[1]));
        assert_eq!(by_flag["total"], json!(rolls[2] + 2));

        let both = json!({"formula": "1d20+2 disadvantage", "advantage": true, "disadvantage": true, "seed": seed});
        assert_eq!(data(both).await, by_flag, "advantage wins");
        let low = data(json!({"formula": "1d20", "disadvantage": true, "seed": seed})).await;
        assert_eq!(low["total"], json!(rolls[0].min(rolls[1])));

        let plain = data(json!({"formula": "2d20", "seed": seed})).await;
        let ignored = data(json!({"formula": "2d20", "advantage": true, "seed": seed})).await;
        assert_eq!(plain, ignored, "only a single d20 has advantage");
    }
}

#[test]
fn d3_only_a_natural_roll_of_one_d20_is_critical() {
    let mut seen = [false; 3];
    for seed in 0..500 {
        let mut dice = Dice::from_seed(seed);
        let roll = notation("1d20+5").roll(&mut dice);
        let expected = match roll.rolls[0] {
            20 => Crit::Crit,
            1 => Crit::Fumble,
            _ => Crit::None,
        };
        assert_eq!(roll.crit, expected);
        seen[expected as usize] = true;

        let lucky = notation("1d20 advantage").roll(&mut dice);
        assert_eq!(lucky.crit == Crit::Crit, lucky.kept == [20]);
        let two = notation("2d20kh1").roll(&mut dice);
        assert_eq!(two.crit, Crit::None);
    }
    assert_eq!(seen, [true; 3]);
}

#[tokio::test]
async fn d3_equal_seeds_give_equal_output() {
    let roll = |seed: Value| call(json!({"dice": "20d1000", "seed": seed}));
    assert_eq!(roll(json!(7)).await, roll(json!(7)).await);
    assert_eq!(roll(json!(7)).await, roll(json!(7.0)).await);
    assert_ne!(roll(json!(7)).await, roll(json!(8)).await);
    assert_ne!(roll(json!(7)).await, roll(json!(-7)).await);
    assert!(roll(json!(u64::MAX)).await.is_ok());
    assert_ne!(roll(Value::Null).await, roll(Value::Null).await);
    for seed in [json!(1.5), json!(1e300)] {
        let failure = roll(seed).await.unwrap_err();
        assert_eq!(failure.message, "The seed must be a 64-bit integer");
    }
}
