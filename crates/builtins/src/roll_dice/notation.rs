use std::fmt;
use std::str::FromStr;

use crate::Excerpt;

/// Maximum number of dice in a roll.
const MAX_COUNT: u32 = 100;
/// Maximum number of sides of a die.
const MAX_SIDES: u32 = 1_000;
/// Maximum modifier, in both directions. The value is arbitrary, and keeps totals far from an
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
    /// Which of the dice count; `None` if all dice count.
    pub keep: Option<KeepRule>,
    /// The number that is added to the sum of the dice.
    pub modifier: i32,
    /// Whether a single d20 is rolled twice. Has no effect on other dice.
    pub advantage: Option<Advantage>,
}

/// Which of several dice count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepRule {
    /// The highest dice count, in this number.
    Highest(u32),
    /// The lowest dice count, in this number.
    Lowest(u32),
}

/// How two rolls of a d20 become one result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advantage {
    /// The higher of the two rolls counts.
    Advantage,
    /// The lower of the two rolls counts.
    Disadvantage,
}

/// Why a text is not a valid notation.
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
    #[error("Too many dice (max {MAX_COUNT})")]
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
        let lower = text.trim().to_lowercase();
        if lower.is_empty() {
            return Err(NotationError::Empty);
        }
        let compact: String = lower.split_whitespace().collect();
        let parts = NotationParts::parse(&compact).ok_or_else(|| NotationError::Malformed {
            notation: Excerpt::new(&lower),
        })?;
        parts.check()
    }
}

/// The numbers of a notation before the limits are checked; a number that is too large is
/// `u32::MAX`.
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
        let mut rest = UnreadText(text);
        let count = rest.number();
        if !rest.take("d") {
            return None;
        }
        let sides = rest.number()?;
        let keep = if rest.take("kh") {
            Some(KeepRule::Highest(rest.number()?))
        } else if rest.take("kl") {
            Some(KeepRule::Lowest(rest.number()?))
        } else {
            None
        };
        let modifier = if rest.take("+") {
            (false, rest.number()?)
        } else if rest.take("-") {
            (true, rest.number()?)
        } else {
            (false, 0)
        };
        let advantage = match rest.0 {
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
        let (negative, modifier) = self.modifier;
        match (self.count, self.sides, self.keep) {
            (0, _, _) => Err(NotationError::NoDice),
            (count, _, _) if count > MAX_COUNT => Err(NotationError::TooManyDice),
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
                modifier: if negative {
                    -(modifier as i32)
                } else {
                    modifier as i32
                },
                advantage: self.advantage,
            }),
        }
    }
}

/// The unread rest of the text.
struct UnreadText<'a>(&'a str);

impl UnreadText<'_> {
    fn take(&mut self, word: &str) -> bool {
        let rest = self.0.strip_prefix(word);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Reads a run of digits, if there is one.
    fn number(&mut self) -> Option<u32> {
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
