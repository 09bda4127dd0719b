//! Estimates the size of a compiled regular expression from its text.
//!
//! The regex engine limits one expression at a time, and compiles without interruption. The
//! estimate, which takes time proportional to the length of the text, bounds the sum in advance. It
//! is an upper bound of the expression's states, not an exact count.

/// Bytes per state: a state of the forward and of the reverse automaton, and what the engine
/// derives from both.
const BYTES_PER_STATE: u64 = 256;

/// States of a class of Unicode characters, such as `\p{L}`.
const UNICODE_CLASS_STATES: u64 = 1_200;

/// States of a class that contains all but a few characters, such as `.` or `[^a]`.
const NEGATED_CLASS_STATES: u64 = 24;

/// Maximum number of states in an estimate, to which repetitions multiply.
const MAX_STATES: u64 = 1 << 40;

/// The estimated cost of a regular expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PatternCost {
    /// Size of the compiled expression, in bytes.
    pub(super) bytes: u64,
    /// Number of characters that are read to translate the expression from the syntax of
    /// ECMAScript: the translator reads the whole expression, with the classes that it has written
    /// out so far, for each class such as `\d`.
    pub(super) translation: u64,
}

impl PatternCost {
    /// Estimates the cost of `pattern`. `is_translated`: classes such as `\w` contain only ASCII
    /// characters, because the expression is translated.
    pub(super) fn new(pattern: &str, is_translated: bool) -> Self {
        let mut counter = StateCounter::new(pattern, is_translated);
        counter.count();
        let ignores_case = pattern.contains("(?") && pattern.contains('i');
        let states = counter.total() * if ignores_case { 4 } else { 1 };
        let length = pattern.len() as u64;
        let written_out = length + counter.added_bytes;
        Self {
            bytes: states.min(MAX_STATES) * BYTES_PER_STATE + length,
            translation: (counter.translated_classes + 1) * written_out,
        }
    }
}

/// Counts the states of an expression, group by group.
struct StateCounter<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    is_translated: bool,
    /// The states before each open group.
    outer: Vec<u64>,
    /// The states of the current group before its last part.
    sum: u64,
    /// The states of the last part, which a quantifier repeats.
    last: u64,
    translated_classes: u64,
    /// Bytes that the written out classes add.
    added_bytes: u64,
}

impl<'a> StateCounter<'a> {
    fn new(pattern: &'a str, is_translated: bool) -> Self {
        Self {
            chars: pattern.chars().peekable(),
            is_translated,
            outer: Vec::new(),
            sum: 2,
            last: 0,
            translated_classes: 0,
            added_bytes: 0,
        }
    }

    fn total(&self) -> u64 {
        let outer = self.outer.iter().copied().fold(0, u64::saturating_add);
        outer.saturating_add(self.sum).saturating_add(self.last)
    }

    fn count(&mut self) {
        while let Some(char) = self.chars.next() {
            match char {
                '(' => {
                    self.add(0);
                    self.outer.push(std::mem::take(&mut self.sum));
                }
                ')' => {
                    let group = self.sum.saturating_add(self.last).saturating_add(2);
                    self.sum = self.outer.pop().unwrap_or_default();
                    self.last = group;
                }
                '[' => {
                    let states = self.class();
                    self.add(states);
                }
                '\\' => {
                    let states = self.escape();
                    self.add(states);
                }
                '{' => self.repeat(),
                '*' | '+' | '?' | '|' => self.last = self.last.saturating_add(2),
                '.' => self.add(NEGATED_CLASS_STATES),
                _ => self.add(char.len_utf8() as u64),
            }
        }
    }

    /// Adds a part.
    fn add(&mut self, states: u64) {
        self.sum = self.sum.saturating_add(self.last).min(MAX_STATES);
        self.last = states;
    }

    /// Multiplies the last part by the largest number up to the next `}`, whatever else is between
    /// the braces.
    fn repeat(&mut self) {
        let (mut count, mut number) = (1, 0_u64);
        for char in self.chars.by_ref().take_while(|char| *char != '}') {
            number = match char.to_digit(10) {
                Some(digit) => number
                    .saturating_mul(10)
                    .saturating_add(u64::from(digit))
                    .min(MAX_STATES),
                None => 0,
            };
            count = number.max(count);
        }
        self.last = self.last.saturating_add(1).saturating_mul(count + 1);
        self.last = self.last.min(MAX_STATES);
    }

    /// Reads a class up to its `]`. Ranges and characters outside ASCII cost more.
    fn class(&mut self) -> u64 {
        let (mut states, mut ascii) = (1_u64, 0);
        if self.chars.next_if_eq(&'^').is_some() {
            states += NEGATED_CLASS_STATES;
        }
        while let Some(char) = self.chars.next() {
            match char {
                ']' => break,
                '\\' => states += self.escape(),
                _ if char.is_ascii() => ascii += 1,
                _ => states += 8,
            }
        }
        // The ranges of ASCII characters share a state.
        states + ascii / 8
    }

    /// Reads an escape sequence after its backslash.
    fn escape(&mut self) -> u64 {
        let Some(char) = self.chars.next() else {
            return 1;
        };
        match char {
            'd' | 'w' | 's' | 'D' | 'W' | 'S' => {
                self.translated_classes += 1;
                self.added_bytes += match char {
                    's' | 'S' => 150,
                    _ => 12,
                };
                match (self.is_translated, char) {
                    (false, _) => UNICODE_CLASS_STATES,
                    (true, 'd' | 'w') => 4,
                    (true, _) => NEGATED_CLASS_STATES,
                }
            }
            'p' | 'P' => {
                self.skip_braces();
                UNICODE_CLASS_STATES
            }
            'x' | 'u' | 'k' | 'g' => {
                self.skip_braces();
                4
            }
            'c' => {
                self.translated_classes += 1;
                1
            }
            _ => char.len_utf8() as u64,
        }
    }

    fn skip_braces(&mut self) {
        if self.chars.next_if_eq(&'{').is_some() {
            self.chars.by_ref().find(|char| *char == '}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_multiply_and_alternatives_add() {
        let states = |pattern: &str| PatternCost::new(pattern, true).bytes / BYTES_PER_STATE;
        for (pattern, min, max) in [
            ("^[a-z]+$", 2, 20),
            ("a{1000}", 1_000, 2_100),
            ("(a{10}){1,100}", 1_000, 3_000),
            ("((a{100}){100}){100}", 1_000_000, 3_000_000),
            ("a{1000}|b{1000}", 2_000, 4_100),
            ("(?x)a{ # many\n 1000 }", 1_000, 9_000),
            ("(?i)[a-z]{1000}", 4_000, 40_000),
            ("\\p{L}{10}", 10_000, 15_000),
            ("[^a]{1000}", 20_000, 40_000),
            ("[a{1000}]", 1, 20),
            ("\\{1000\\}", 1, 20),
            ("\\x{1000}", 1, 20),
            ("(((", 0, 20),
            (")))", 0, 20),
            ("a{99999999999999999999999}", 1_000_000, MAX_STATES),
        ] {
            let states = states(pattern);
            assert!((min..=max).contains(&states), "{pattern}: {states}");
        }
        let few = PatternCost::new("^\\d{4}-\\d{2}$", true);
        assert!(few.translation < 200, "{few:?}");
        let many = PatternCost::new(&"\\d".repeat(1_000), true);
        assert!(many.translation > 1_000_000, "{many:?}");
    }
}
