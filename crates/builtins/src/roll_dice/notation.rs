use std::fmt;
use std::str::FromStr;

use crate::Excerpt;

/// The most dice of one roll.
const MAX_COUNT: u32 = 100;
/// The most sides of a die.
const MAX_SIDES: u32 = 1_000;
/// The largest number to add or to take away. The seeds name no bound; this one keeps
/// totals far from any overflow.
const MAX_MODIFIER: u32 = 1_000_000;

/// A roll as it is written: `[N]dS[(kh|kl)K][(+|-)M][ advantage| disadvantage]`, in any
/// letter case, with spaces anywhere. N is 1 when left out.
///
/// `Display` is the notation in one spelling: lower case, without spaces, N always there.
///
/// ```
/// use pillion_builtins::roll_dice::Notation;
/// let notation: Notation = "D20 + 5 Advantage".parse()?;
/// assert_eq!(notation.to_string(), "1d20+5 advantage");
/// # Ok::<(), pillion_builtins::roll_dice::NotationError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notation {
    /// How many dice, 1 to 100.
    pub count: u32,
    /// How many sides each has, 1 to 1000.
    pub sides: u32,
    /// Which of the dice count; all when there is nothing.
    pub keep: Option<Keep>,
    /// What is added to the sum.
    pub modifier: i32,
    /// Whether a single d20 is rolled twice; of no effect on other dice.
    pub advantage: Option<Advantage>,
}

/// Which of several dice count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The so many highest.
    Highest(u32),
    /// The so many lowest.
    Lowest(u32),
}

/// A d20 rolled twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advantage {
    /// The higher of the two counts.
    Advantage,
    /// The lower of the two counts.
    Disadvantage,
}

/// Why a text is no notation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotationError {
    /// It is empty or blank.
    #[error("No dice notation provided")]
    Empty,
    /// It does not follow the grammar.
    #[error("Invalid dice notation: {notation}")]
    Malformed {
        /// The beginning of the text, in lower case.
        notation: Excerpt,
    },
    /// It asks for no dice at all.
    #[error("Must roll at least 1 die")]
    NoDice,
    /// It asks for more than 100 dice.
    #[error("Too many dice (max {MAX_COUNT})")]
    TooManyDice,
    /// It asks for dice without sides.
    #[error("Dice must have at least 1 side")]
    NoSides,
    /// It asks for more than 1000 sides.
    #[error("Too many sides (max {MAX_SIDES})")]
    TooManySides,
    /// It keeps none of the dice.
    #[error("Must keep at least 1 die")]
    NothingKept,
    /// It adds or takes away more than a million.
    #[error("Modifier too large (max {MAX_MODIFIER})")]
    ModifierTooLarge,
}

impl Notation {
    /// Whether this is the one roll that has advantage, criticals and fumbles.
    #[must_use]
    pub fn is_single_d20(&self) -> bool {
        self.count == 1 && self.sides == 20
    }
}

impl FromStr for Notation {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Self, NotationError> {
        let text = text.trim().to_lowercase();
        if text.is_empty() {
            return Err(NotationError::Empty);
        }
        let compact: String = text.split_whitespace().collect();
        let parts = Parts::of(&compact).ok_or_else(|| NotationError::Malformed {
            notation: Excerpt::of(&text),
        })?;
        parts.check()
    }
}

/// The numbers of a notation before they are checked; those too large to hold are
/// `u32::MAX`.
struct Parts {
    count: u32,
    sides: u32,
    keep: Option<Keep>,
    modifier: (bool, u32),
    advantage: Option<Advantage>,
}

impl Parts {
    /// `None` where `text` departs from the grammar.
    fn of(text: &str) -> Option<Self> {
        let mut rest = Rest(text);
        let count = rest.number();
        if !rest.take("d") {
            return None;
        }
        let sides = rest.number()?;
        let keep = if rest.take("kh") {
            Some(Keep::Highest(rest.number()?))
        } else if rest.take("kl") {
            Some(Keep::Lowest(rest.number()?))
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
            (_, _, Some(Keep::Highest(0) | Keep::Lowest(0))) => Err(NotationError::NothingKept),
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

/// What is still to be read.
struct Rest<'a>(&'a str);

impl Rest<'_> {
    fn take(&mut self, word: &str) -> bool {
        let rest = self.0.strip_prefix(word);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// A run of digits, if there is one.
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
            Some(Keep::Highest(count)) => write!(f, "kh{count}")?,
            Some(Keep::Lowest(count)) => write!(f, "kl{count}")?,
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
