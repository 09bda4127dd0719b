use std::fmt;
use std::str::FromStr;

use pillion_core::tool::{JsonObject, ToolFailure};
use serde::Serialize;
use serde_json::Value;

use crate::arguments::{
    as_integer, find_argument, invalid_argument, read_flag, read_integer, read_text,
};
use crate::dice::D20;

/// Maximum absolute value of scores, bonuses and difficulty classes.
const MAX_ABSOLUTE_VALUE: i64 = 1_000;

/// Maximum number of rolls that a caller can pass in the arguments.
const MAX_ROLLS: usize = 10;

/// One of the six abilities of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Ability {
    Strength,
    Dexterity,
    Constitution,
    Intelligence,
    Wisdom,
    Charisma,
}

impl Ability {
    const ALL: [Self; 6] = [
        Self::Strength,
        Self::Dexterity,
        Self::Constitution,
        Self::Intelligence,
        Self::Wisdom,
        Self::Charisma,
    ];

    /// Returns the ability's abbreviation in capital letters, such as `DEX`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strength => "STR",
            Self::Dexterity => "DEX",
            Self::Constitution => "CON",
            Self::Intelligence => "INT",
            Self::Wisdom => "WIS",
            Self::Charisma => "CHA",
        }
    }

    /// Returns the ability with this abbreviation in capital letters, such as `DEX`.
    #[must_use]
    pub fn from_exact(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|ability| ability.as_str() == name)
    }
}

impl FromStr for Ability {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL
            .into_iter()
            .find(|ability| ability.as_str().eq_ignore_ascii_case(name))
            .ok_or(())
    }
}

/// An ability check: a d20 and a modifier, against a difficulty class.
///
/// ```
/// use pillion_tabletop::{Ability, Check};
/// let check = Check {
///     score: 16,
///     advantage: true,
///     ..Check::untrained(Ability::Dexterity, 15)
/// };
/// let result = check.evaluate(4, &[13]);
/// assert_eq!((result.pick, result.total, result.success), (13, 16, Some(true)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The ability that is checked.
    pub ability: Ability,
    /// The ability score, which determines the modifier; 10 is average.
    pub score: i64,
    /// Whether the character is proficient, so that the proficiency bonus is added.
    pub proficient: bool,
    /// Whether the proficiency bonus is added twice, whatever `proficient` is.
    pub expertise: bool,
    /// The proficiency bonus of the character, used for proficiency and expertise.
    pub proficiency_bonus: i64,
    /// The difficulty class that the total must reach, if the check has a difficulty class.
    pub dc: Option<i64>,
    /// Whether the highest roll counts. Takes precedence over disadvantage.
    pub advantage: bool,
    /// Whether the lowest roll counts, unless the check also has advantage.
    pub disadvantage: bool,
}

/// The result of an ability check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckResult {
    /// The roll that counts (`pick`), plus the modifier.
    pub total: i64,
    /// All rolls of the d20, in order.
    pub d20: Vec<i64>,
    /// The roll of the d20 that counts: with advantage the highest, with disadvantage the lowest.
    pub pick: i64,
    /// The modifier that was added, including proficiency.
    #[serde(rename = "mod")]
    pub modifier: i64,
    /// Whether the total reaches the difficulty class; `None` for a check without a difficulty
    /// class. A natural 20 or 1 has no special effect.
    pub success: Option<bool>,
}

impl Check {
    /// Returns a check with average score and without proficiency.
    #[must_use]
    pub fn untrained(ability: Ability, dc: i64) -> Self {
        Self {
            ability,
            score: 10,
            proficient: false,
            expertise: false,
            proficiency_bonus: 2,
            dc: Some(dc),
            advantage: false,
            disadvantage: false,
        }
    }

    /// Returns the number that is added to the roll, which is the modifier of the ability score
    /// plus the proficiency bonus.
    #[must_use]
    pub fn modifier(&self) -> i64 {
        let multiplier = match (self.expertise, self.proficient) {
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => 0,
        };
        (self.score - 10).div_euclid(2) + self.proficiency_bonus * multiplier
    }

    /// Rolls once, or twice with advantage or disadvantage, and returns the result.
    #[must_use]
    pub fn throw(&self, d20: &mut D20) -> CheckResult {
        let first_roll = d20.throw();
        if self.advantage || self.disadvantage {
            self.evaluate(first_roll, &[d20.throw()])
        } else {
            self.evaluate(first_roll, &[])
        }
    }

    /// Returns the result of the check for given rolls of the d20.
    #[must_use]
    pub fn evaluate(&self, first_roll: i64, other_rolls: &[i64]) -> CheckResult {
        let later_rolls = other_rolls.iter().copied();
        let pick = if self.advantage {
            later_rolls.fold(first_roll, i64::max)
        } else if self.disadvantage {
            later_rolls.fold(first_roll, i64::min)
        } else {
            first_roll
        };
        let modifier = self.modifier();
        let total = pick + modifier;
        CheckResult {
            total,
            d20: [&[first_roll], other_rolls].concat(),
            pick,
            modifier,
            success: self.dc.map(|dc| total >= dc),
        }
    }

    /// Reads a check from the arguments of a tool.
    pub(crate) fn from_arguments(arguments: &JsonObject) -> Result<Self, ToolFailure> {
        let ability = read_text(arguments, "ability", 64)?;
        let unknown_ability =
            |()| invalid_argument("ability", "must be STR, DEX, CON, INT, WIS or CHA");
        let missing_score = || ToolFailure::invalid_input("Missing required parameter: score");
        Ok(Self {
            ability: ability.parse().map_err(unknown_ability)?,
            score: read_integer(arguments, "score", MAX_ABSOLUTE_VALUE)?
                .ok_or_else(missing_score)?,
            proficient: read_flag(arguments, "proficient")?,
            expertise: read_flag(arguments, "expertise")?,
            proficiency_bonus: read_integer(arguments, "proficiency_bonus", MAX_ABSOLUTE_VALUE)?
                .unwrap_or(2),
            dc: read_integer(arguments, "dc", MAX_ABSOLUTE_VALUE)?,
            advantage: read_flag(arguments, "advantage")?,
            disadvantage: read_flag(arguments, "disadvantage")?,
        })
    }
}

/// Returns the rolls in the arguments; empty if the tool has to roll the dice.
pub(crate) fn read_rolls(arguments: &JsonObject) -> Result<Vec<i64>, ToolFailure> {
    let Some(value) = find_argument(arguments, "d20_rolls") else {
        return Ok(Vec::new());
    };
    let invalid_rolls = || {
        let requirement = format!("must have 1 to {MAX_ROLLS} integers from 1 to 20");
        invalid_argument("d20_rolls", &requirement)
    };
    let rolls = value.as_array().ok_or_else(invalid_rolls)?;
    if rolls.is_empty() || rolls.len() > MAX_ROLLS {
        return Err(invalid_rolls());
    }
    let parse_face = |value: &Value| as_integer(value).filter(|face| (1..=20).contains(face));
    rolls
        .iter()
        .map(parse_face)
        .collect::<Option<_>>()
        .ok_or_else(invalid_rolls)
}

/// Formats a check and its result for players.
pub(crate) struct CheckDisplay<'a>(pub(crate) &'a Check, pub(crate) &'a CheckResult);

impl fmt::Display for CheckDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(check, result) = self;
        write!(f, "Check: {}", check.ability.as_str())?;
        if let Some(dc) = check.dc {
            write!(f, " vs DC {dc}")?;
        }
        let rolls: Vec<_> = result.d20.iter().map(i64::to_string).collect();
        write!(f, "\nd20: {}", rolls.join(", "))?;
        if rolls.len() > 1 {
            write!(f, " (takes {})", result.pick)?;
        }
        let (modifier, total) = (result.modifier, result.total);
        write!(f, " | mod: {modifier:+} | total: {total}")?;
        match result.success {
            Some(true) => f.write_str(" -> SUCCESS"),
            Some(false) => f.write_str(" -> FAIL"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn check(value: &Value) -> Result<Check, ToolFailure> {
        Check::from_arguments(value.as_object().unwrap())
    }

    fn evaluate_json(value: &Value, rolls: &[i64]) -> Value {
        let result = check(value).unwrap().evaluate(rolls[0], &rolls[1..]);
        serde_json::to_value(result).unwrap()
    }

    #[test]
    fn d8_the_documented_examples_hold() {
        let dex = json!({"ability": "DEX", "score": 16, "proficient": true, "dc": 15});
        let result = json!({"total": 17, "d20": [12], "pick": 12, "mod": 5, "success": true});
        assert_eq!(evaluate_json(&dex, &[12]), result);
        let strength = json!({"ability": "STR", "score": 9});
        let result = json!({"total": 9, "d20": [10], "pick": 10, "mod": -1, "success": null});
        assert_eq!(evaluate_json(&strength, &[10]), result);
        let wisdom = json!({"ability": "WIS", "score": 14, "expertise": true,
            "proficiency_bonus": 3, "advantage": true, "dc": 20});
        let result = json!({"total": 23, "d20": [7, 15], "pick": 15, "mod": 8, "success": true});
        assert_eq!(evaluate_json(&wisdom, &[7, 15]), result);
    }

    #[test]
    fn d8_advantage_takes_the_higher_and_wins_disadvantage_the_lower() {
        let picked = |advantage, disadvantage| {
            let check = json!({"ability": "int", "score": 10, "dc": 20, "advantage": advantage,
                "disadvantage": disadvantage});
            evaluate_json(&check, &[7, 20, 1])["pick"].clone()
        };
        assert_eq!(picked(true, false), 20);
        assert_eq!(picked(false, true), 1);
        assert_eq!(picked(true, true), 20);
        assert_eq!(picked(false, false), 7);
    }

    #[test]
    fn d8_a_natural_20_or_1_has_no_special_effect() {
        let hard = json!({"ability": "cha", "score": 10, "dc": 25});
        assert_eq!(evaluate_json(&hard, &[20])["success"], false);
        let easy = json!({"ability": "Con", "score": 20, "dc": 6});
        assert_eq!(evaluate_json(&easy, &[1])["success"], true);
    }

    #[test]
    fn d8_invalid_checks_are_rejected_with_a_reason() {
        let with = |name: &str, value: Value| {
            let mut check = json!({"ability": "STR", "score": 1});
            check[name] = value;
            // A null parameter counts as absent.
            check
                .as_object_mut()
                .unwrap()
                .retain(|_, value| !value.is_null());
            check
        };
        for (name, value, reason) in [
            (
                "ability",
                json!("LCK"),
                "'ability' must be STR, DEX, CON, INT, WIS or CHA",
            ),
            (
                "ability",
                json!(null),
                "Missing required parameter: ability",
            ),
            ("score", json!(null), "Missing required parameter: score"),
            ("score", json!(1e300), "'score' must be an integer"),
            ("score", json!(1_001), "'score' must be from -1000 to 1000"),
            ("dc", json!("12"), "'dc' must be an integer"),
            ("advantage", json!(1), "'advantage' must be true or false"),
        ] {
            let invalid = with(name, value);
            assert_eq!(check(&invalid).unwrap_err().message, reason, "{invalid}");
        }
        for bad in [json!([]), json!([0]), json!([21]), json!(["1"]), json!(7)] {
            let arguments = json!({"d20_rolls": bad});
            let message = read_rolls(arguments.as_object().unwrap())
                .unwrap_err()
                .message;
            assert!(message.starts_with("'d20_rolls' must have"), "{bad}");
        }
    }

    #[test]
    fn d9_mechanics_are_formatted_for_players() {
        let check = Check::untrained(Ability::Dexterity, 12);
        let text = |check: &Check, rolls: &[i64]| {
            let result = check.evaluate(rolls[0], &rolls[1..]);
            CheckDisplay(check, &result).to_string()
        };
        assert_eq!(
            text(&check, &[4]),
            "Check: DEX vs DC 12\nd20: 4 | mod: +0 | total: 4 -> FAIL"
        );
        assert!(text(&check, &[12]).ends_with("total: 12 -> SUCCESS"));
        let open = Check {
            dc: None,
            disadvantage: true,
            score: 8,
            ..check
        };
        assert_eq!(
            text(&open, &[4, 3]),
            "Check: DEX\nd20: 4, 3 (takes 3) | mod: -1 | total: 2"
        );
    }

    proptest! {
        #[test]
        fn d8_every_check_adds_up(
            score in -1000..1000i64, bonus in -1000..1000i64, dc in -1000..1000i64,
            flags in any::<(bool, bool, bool, bool)>(), seed in any::<u64>(),
        ) {
            let (proficient, expertise, advantage, disadvantage) = flags;
            let check = Check {
                ability: Ability::Wisdom, score, proficient, expertise, proficiency_bonus: bonus,
                dc: Some(dc), advantage, disadvantage,
            };
            let result = check.throw(&mut D20::new(Some(seed)).unwrap());
            prop_assert_eq!(result.total, result.pick + result.modifier);
            prop_assert_eq!(result.d20.len(), if advantage || disadvantage { 2 } else { 1 });
            prop_assert!(result.d20.contains(&result.pick));
            prop_assert_eq!(result.success, Some(result.total >= dc));
            let again = check.throw(&mut D20::new(Some(seed)).unwrap());
            prop_assert_eq!(result, again);
        }
    }
}
