use std::fmt;
use std::str::FromStr;

use crate::Excerpt;

/// Maximum number of dice in a roll.
const MAX_DICE: u32 = 100;
/// Maximum number of sides of a die.
const MAX_SIDES: u32 = 1_000;
/// Maximum absolute value of the modifier. The limit is arbitrary, and keeps totals far from an
/// overflow.
const MAX_MODIFIER: u32 = 1_000_000;

/// The notation of a roll: `[N]dS[(kh|kl)K][(+|-)M][ advantage| disadvantage]`, case-insensitive,
/// with spaces anywhere. N defaults to 1.
///
/// `Display` writes the canonical notation: in lower case, without spaces, always with N.
///
/// ```
/// use pillion_builtins::roll_dice::Notation;
/// let notation: Notation = "D20 + 5 Advantage".parse()?;
/// assert_eq!(notation.to_string(), "1d20+5 advantage");
/// # Ok::<(), pillion_builtins::roll_dice::NotationError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notation {
    /// The number of dice, 1 to 100.
    pub count: u32,
    /// The number of sides of each die, 1 to 1000.
    pub sides: u32,
    /// The rule that selects the dice that count; `None` if all dice count.
    pub keep: Option<KeepRule>,
    /// The modifier: a number that is added to the sum of the dice that count.
    pub modifier: i32,
    /// Whether a single d20 is rolled twice. Has no effect on other dice.
    pub advantage: Option<Advantage>,
}

/// A rule that selects the dice of a roll that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepRule {
    /// Only the highest dice count; the value is their number.
    Highest(u32),
    /// Only the lowest dice count; the value is their number.
    Lowest(u32),
}

/// Advantage or disadvantage: which of two rolls of a d20 counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advantage {
    /// The higher of the two rolls counts.
    Advantage,
    /// The lower of the two rolls counts.
    Disadvantage,
}

/// The reason why a text is not a valid notation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotationError {
    /// The text is empty or blank.
    #[error("No dice notation provided")]
    Empty,
    /// The text does not follow the grammar.
    #[error("Invalid dice notation: {notation}")]
    Malformed {
        /// The beginning of the text, in lower case.
        notation: Excerpt,
    },
    /// The number of dice is zero.
    #[error("Must roll at least 1 die")]
    NoDice,
    /// The number of dice exceeds 100.
    #[error("Too many dice (max {MAX_DICE})")]
    TooManyDice,
    /// The number of sides is zero.
    #[error("Dice must have at least 1 side")]
    NoSides,
    /// The number of sides exceeds 1000.
    #[error("Too many sides (max {MAX_SIDES})")]
    TooManySides,
    /// The number of kept dice is zero.
    #[error("Must keep at least 1 die")]
    NoDiceToKeep,
    /// The modifier exceeds one million.
    #[error("Modifier too large (max {MAX_MODIFIER})")]
    ModifierTooLarge,
}

impl Notation {
    /// Returns whether this is a single d20, the only roll with advantage, criticals and fumbles.
    #[must_use]
    pub fn is_single_d20(&self) -> bool {
        self.count == 1 && self.sides == 20
    }
}

impl FromStr for Notation {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Self, NotationError> {
        let lower_case_text = text.trim().to_lowercase();
        if lower_case_text.is_empty() {
            return Err(NotationError::Empty);
        }
        let compact_text: String = lower_case_text.split_whitespace().collect();
        let parts =
            NotationParts::parse(&compact_text).ok_or_else(|| NotationError::Malformed {
                notation: Excerpt::new(&lower_case_text),
            })?;
        parts.check()
    }
}

/// The parts of a notation before their limits are checked. A number that does not fit `u32` is
/// stored as `u32::MAX`.
struct NotationParts {
    count: u32,
    sides: u32,
    keep: Option<KeepRule>,
    modifier: (bool, u32),
    advantage: Option<Advantage>,
}

impl NotationParts {
    /// Parses the parts; `None` if `text` does not follow the grammar.
    fn parse(text: &str) -> Option<Self> {
        let mut unread_text = UnreadText(text);
        let count = unread_text.read_number();
        if !unread_text.take("d") {
            return None;
        }
        let sides = unread_text.read_number()?;
        let keep = if unread_text.take("kh") {
            Some(KeepRule::Highest(unread_text.read_number()?))
        } else if unread_text.take("kl") {
            Some(KeepRule::Lowest(unread_text.read_number()?))
        } else {
            None
        };
        let modifier = if unread_text.take("+") {
            (false, unread_text.read_number()?)
        } else if unread_text.take("-") {
            (true, unread_text.read_number()?)
        } else {
            (false, 0)
        };
        let advantage = match unread_text.0 {
            "" => None,
            "advantage" => Some(Advantage::Advantage),
            "disadvantage" => Some(Advantage::Disadvantage),
            _ => return None,
        };
        Some(Self {
            count: count.unwrap_or(1),
            sides,
            keep,
            modifier,
            advantage,
        })
    }

    fn check(self) -> Result<Notation, NotationError> {
        let (is_negative, modifier) = self.modifier;
        match (self.count, self.sides, self.keep) {
            (0, _, _) => Err(NotationError::NoDice),
            (count, _, _) if count > MAX_DICE => Err(NotationError::TooManyDice),
            (_, 0, _) => Err(NotationError::NoSides),
            (_, sides, _) if sides > MAX_SIDES => Err(NotationError::TooManySides),
            (_, _, Some(KeepRule::Highest(0) | KeepRule::Lowest(0))) => {
                Err(NotationError::NoDiceToKeep)
            }
            _ if modifier > MAX_MODIFIER => Err(NotationError::ModifierTooLarge),
            (count, sides, keep) => Ok(Notation {
                count,
                sides,
                keep,
                modifier: if is_negative {
                    -(modifier as i32)
                } else {
                    modifier as i32
                },
                advantage: self.advantage,
            }),
        }
    }
}

/// The rest of the notation that was not read yet.
struct UnreadText<'a>(&'a str);

impl UnreadText<'_> {
    fn take(&mut self, word: &str) -> bool {
        let remaining_text = self.0.strip_prefix(word);
        self.0 = remaining_text.unwrap_or(self.0);
        remaining_text.is_some()
    }

    /// Reads the digits at the start of the text, if the text starts with a digit.
    fn read_number(&mut self) -> Option<u32> {
        let end = self
            .0
            .find(|char: char| !char.is_ascii_digit())
            .unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        (!digits.is_empty()).then(|| digits.parse().unwrap_or(u32::MAX))
    }
}

impl fmt::Display for Notation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}d{}", self.count, self.sides)?;
        match self.keep {
            Some(KeepRule::Highest(count)) => write!(f, "kh{count}")?,
            Some(KeepRule::Lowest(count)) => write!(f, "kl{count}")?,
            None => {}
        }
        if self.modifier != 0 {
            write!(f, "{:+}", self.modifier)?;
        }
        match self.advantage {
            Some(Advantage::Advantage) if self.is_single_d20() => f.write_str(" advantage"),
            Some(Advantage::Disadvantage) if self.is_single_d20() => f.write_str(" disadvantage"),
            Some(_) | None => Ok(()),
        }
    }
}
