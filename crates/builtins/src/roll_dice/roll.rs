use std::cmp::Reverse;
use std::fmt;

use serde_json::{Value, json};

use super::{Advantage, Dice, KeepRule, Notation};

/// The result of a roll.
///
/// `Display` writes the text for the model: `Rolled 4d6kh3: [6, 4, 3, 2] → kept [6, 4, 3] =
/// **13**`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roll {
    /// The notation of the roll.
    pub notation: Notation,
    /// All dice in the order in which they were rolled. With advantage or disadvantage: both rolls
    /// of the d20, followed by the roll that counts.
    pub rolls: Vec<u32>,
    /// The dice that count, in the order of the rolls, or sorted if not all dice are kept.
    pub kept: Vec<u32>,
    /// The sum of the dice that count, plus the modifier.
    pub total: i64,
    /// Whether a single d20 shows 20 or 1.
    pub crit: Crit,
}

/// Whether a single d20 shows 20 (a critical success), 1 (a fumble) or another face, regardless of
/// the modifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crit {
    /// The d20 shows another face, or the roll is not one d20.
    None,
    /// The d20 shows 20.
    Crit,
    /// The d20 shows 1.
    Fumble,
}

impl Crit {
    /// Returns the value's name in JSON: `none`, `crit` or `fumble`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Crit => "crit",
            Self::Fumble => "fumble",
        }
    }
}

impl Notation {
    /// Rolls the dice.
    ///
    /// ```
    /// use pillion_builtins::roll_dice::{Dice, Notation};
    /// let notation: Notation = "4d6kh3".parse()?;
    /// let roll = notation.roll(&mut Dice::from_seed(7));
    /// assert_eq!(roll, notation.roll(&mut Dice::from_seed(7)));
    /// assert_eq!((roll.rolls.len(), roll.kept.len()), (4, 3));
    /// # Ok::<(), pillion_builtins::roll_dice::NotationError>(())
    /// ```
    #[must_use]
    pub fn roll(self, dice: &mut Dice) -> Roll {
        let (rolls, kept) = match self.advantage {
            Some(advantage) if self.is_single_d20() => {
                let (first, second) = (dice.roll_die(20), dice.roll_die(20));
                let counted_roll = match advantage {
                    Advantage::Advantage => first.max(second),
                    Advantage::Disadvantage => first.min(second),
                };
                (vec![first, second, counted_roll], vec![counted_roll])
            }
            _ => {
                let rolls: Vec<_> = (0..self.count).map(|_| dice.roll_die(self.sides)).collect();
                let kept = select_rolls(&rolls, self.keep);
                (rolls, kept)
            }
        };
        let sum: i64 = kept.iter().copied().map(i64::from).sum();
        let crit = match kept[..] {
            [20] if self.is_single_d20() => Crit::Crit,
            [1] if self.is_single_d20() => Crit::Fumble,
            _ => Crit::None,
        };
        Roll {
            notation: self,
            rolls,
            kept,
            total: sum + i64::from(self.modifier),
            crit,
        }
    }
}

fn select_rolls(rolls: &[u32], keep_rule: Option<KeepRule>) -> Vec<u32> {
    let mut kept_rolls = rolls.to_vec();
    let count = match keep_rule {
        None => return kept_rolls,
        Some(KeepRule::Highest(count)) => {
            kept_rolls.sort_by_key(|roll| Reverse(*roll));
            count
        }
        Some(KeepRule::Lowest(count)) => {
            kept_rolls.sort();
            count
        }
    };
    kept_rolls.truncate(count as usize);
    kept_rolls
}

impl Roll {
    /// Returns the result as `{rolls, kept, total, crit, expr, count, sides, modifier}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "rolls": self.rolls,
            "kept": self.kept,
            "total": self.total,
            "crit": self.crit.as_str(),
            "expr": self.notation.to_string(),
            "count": self.notation.count,
            "sides": self.notation.sides,
            "modifier": self.notation.modifier,
        })
    }
}

impl fmt::Display for Roll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rolled {}:", self.notation)?;
        if self.rolls.len() > 1 {
            let has_advantage = self.notation.count == 1;
            let rolled_dice = if has_advantage {
                &self.rolls[..2]
            } else {
                &self.rolls[..]
            };
            write!(f, " {rolled_dice:?}")?;
            if has_advantage || self.notation.keep.is_some() {
                write!(f, " → kept {:?}", self.kept)?;
            }
            if self.notation.modifier != 0 {
                write!(f, " {:+}", self.notation.modifier)?;
            }
            f.write_str(" =")?;
        }
        write!(f, " **{}**", self.total)
    }
}
