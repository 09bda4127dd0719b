//! Bounds the compiled size of a regular expression before the expression is compiled.
//!
//! The regex engine limits the size of one expression, and compiles without interruption, so the
//! total size must be bounded in advance. The validator's own translator and parser read the
//! expression, so that comments, classes and escapes have the same meaning here as in the
//! validator. The bound counts the states of the automaton for the parsed expression.

use std::collections::HashMap;

use fancy_regex::{Assertion, Expr, LookAround};
use jsonschema_regex::to_rust_regex;
use regex_syntax::hir::{Class, HirKind};
use regex_syntax::utf8::Utf8Sequences;

/// Estimated number of bytes per state of the automaton. Includes the state in the forward
/// automaton, in the reverse automaton, and in the data that the engine derives from the two
/// automata.
const BYTES_PER_STATE: u64 = 256;

/// Estimated size of a regular expression engine without the states of its automata, in bytes. An
/// expression with look-around or back-references is compiled to several engines, at most one for
/// each part.
const BYTES_PER_ENGINE: u64 = 4096;

/// Number of automaton states for `.`, any character.
const DOT_STATES: u64 = 24;

/// Maximum number of automaton states for a character whose case is ignored.
const CASELESS_CHAR_STATES: u64 = 24;

/// Number of automaton states for `\R`, any line break.
const NEWLINE_STATES: u64 = 40;

/// Maximum number of automaton states for a character class of Unicode properties, and for each
/// byte of a long character class.
const MAX_CLASS_STATES: u64 = 8_000;
const MAX_CLASS_STATES_PER_BYTE: u64 = 3;

/// Maximum length of a character class that is parsed, in bytes. The length is limited because
/// parsing a class takes quadratic time.
const MAX_PARSED_CLASS_BYTES: usize = 256;

/// Maximum total work of parsing the character classes of one schema, and the work that is assumed
/// for each class of Unicode characters, both in parsed bytes. The maximum takes about a
/// millisecond.
const MAX_CLASS_WORK: usize = 20_000;
const UNICODE_CLASS_WORK: usize = 200;

/// Maximum number of automaton states for a look-behind, for which the engine has no limit.
const MAX_LOOKBEHIND_STATES: u64 = 4_096;

/// Value at which the count of automaton states saturates, because repetitions multiply the count.
const MAX_STATES: u64 = 1 << 40;

/// Maximum nesting of an expression. Higher than the limit of the regex parser.
const MAX_LEVELS: usize = 256;

/// Error for a pattern whose size cannot be bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unbounded;

/// Returns an upper bound of the number of characters that are read to translate a pattern from the
/// syntax of ECMAScript: for each class such as `\d`, the translator reads the whole pattern again,
/// including the classes that the translator has expanded so far.
///
/// Counts everything that looks like such a class, so the count does not depend on the syntax.
pub(super) fn translation_work(pattern: &str) -> u64 {
    let (mut class_count, mut expanded_length) = (0, pattern.len() as u64);
    for pair in pattern.as_bytes().windows(2) {
        let added_length = match pair {
            b"\\d" | b"\\D" | b"\\w" | b"\\W" => 12,
            b"\\s" | b"\\S" => 160,
            b"\\c" => 1,
            _ => continue,
        };
        class_count += 1;
        expanded_length += added_length;
    }
    (class_count + 1) * expanded_length
}

/// The sizes of the patterns of one schema.
#[derive(Debug, Default)]
pub(super) struct PatternSizes {
    /// The number of states of each character class that was parsed, keyed by the text of the class
    /// and whether case is ignored.
    classes: HashMap<(String, bool), u64>,
    class_work: usize,
}

impl PatternSizes {
    /// Returns an upper bound of the size of the compiled pattern, in bytes. Takes time
    /// proportional to [`translation_work`].
    ///
    /// # Errors
    /// The pattern has constructs whose size multiplies, such as calls of groups, which are not
    /// part of ECMAScript.
    pub(super) fn compiled_bytes(&mut self, pattern: &str) -> Result<u64, Unbounded> {
        // A pattern that cannot be translated or parsed needs no bound, because the compiler
        // rejects it.
        let Ok(translated_pattern) = to_rust_regex(pattern) else {
            return Ok(0);
        };
        let Ok(tree) = Expr::parse_tree(&translated_pattern) else {
            return Ok(0);
        };
        let mut counter = StateCounter {
            sizes: self,
            part_count: 0,
            has_several_engines: false,
        };
        let state_count = counter.state_count(&tree.expr, 0)?.min(MAX_STATES);
        let engine_count = if counter.has_several_engines {
            counter.part_count
        } else {
            1
        };
        Ok(state_count * BYTES_PER_STATE
            + engine_count * BYTES_PER_ENGINE
            + translated_pattern.len() as u64)
    }

    /// Returns the maximum number of automaton states for a character class.
    fn class_states(&mut self, class: &str, ignores_case: bool) -> u64 {
        let max_states = MAX_CLASS_STATES + MAX_CLASS_STATES_PER_BYTE * class.len() as u64;
        if class.len() > MAX_PARSED_CLASS_BYTES {
            return max_states;
        }
        let key = (class.to_owned(), ignores_case);
        if let Some(state_count) = self.classes.get(&key) {
            return *state_count;
        }
        let unicode_class_count = class.matches('\\').count() + usize::from(ignores_case);
        self.class_work += class.len() + unicode_class_count * UNICODE_CLASS_WORK;
        if self.class_work > MAX_CLASS_WORK {
            return max_states;
        }
        let state_count = parsed_class_states(class, ignores_case).unwrap_or(max_states);
        self.classes.insert(key, state_count);
        state_count
    }
}

fn parsed_class_states(class: &str, ignores_case: bool) -> Option<u64> {
    let mut parser_builder = regex_syntax::ParserBuilder::new();
    let hir = parser_builder
        .case_insensitive(ignores_case)
        .build()
        .parse(class);
    match hir.ok()?.kind() {
        HirKind::Empty => Some(1),
        HirKind::Literal(literal) => Some(literal.0.len() as u64),
        HirKind::Class(Class::Unicode(class)) if class.is_ascii() => Some(2),
        HirKind::Class(Class::Unicode(class)) => {
            let ranges = class.ranges().iter();
            let sequences = ranges.map(|range| Utf8Sequences::new(range.start(), range.end()));
            Some(sequences.flatten().count() as u64 + 2)
        }
        _ => None,
    }
}

/// Counts the automaton states for one expression.
struct StateCounter<'a> {
    sizes: &'a mut PatternSizes,
    /// Number of parts that may be compiled to an engine.
    part_count: u64,
    /// Whether the expression has parts that no automaton can match.
    has_several_engines: bool,
}

impl StateCounter<'_> {
    fn state_count(&mut self, expr: &Expr, level: usize) -> Result<u64, Unbounded> {
        if level > MAX_LEVELS {
            return Err(Unbounded);
        }
        self.part_count += 1;
        let state_count = match expr {
            Expr::Empty => 1,
            Expr::Any { .. } => DOT_STATES,
            Expr::Literal { val, casei: false } => val.len() as u64,
            Expr::Literal { val, casei: true } => val.chars().count() as u64 * CASELESS_CHAR_STATES,
            Expr::Delegate { inner, casei } => self.sizes.class_states(inner, *casei),
            Expr::Assertion(
                Assertion::StartText
                | Assertion::EndText
                | Assertion::StartLine { .. }
                | Assertion::EndLine { .. },
            ) => 2,
            Expr::Concat(parts) | Expr::Alt(parts) => {
                let mut total = 2;
                for part in parts {
                    total = (self.state_count(part, level + 1)? + 1 + total).min(MAX_STATES);
                }
                total
            }
            Expr::Group(inner) => self.state_count(inner, level + 1)? + 2,
            Expr::Repeat { child, lo, hi, .. } => {
                let state_count = self.state_count(child, level + 1)?;
                match (*lo as u64, *hi) {
                    (lo, usize::MAX) => (state_count + 1).saturating_mul(lo + 1),
                    (lo, hi) if lo == hi as u64 => state_count.saturating_mul(lo).saturating_add(1),
                    (_, hi) => (state_count + 1)
                        .saturating_mul(hi as u64)
                        .saturating_add(1),
                }
            }
            Expr::LookAround(inner, direction) => {
                self.has_several_engines = true;
                let state_count = self.state_count(inner, level + 1)?;
                let is_behind = matches!(
                    direction,
                    LookAround::LookBehind | LookAround::LookBehindNeg
                );
                if is_behind && state_count > MAX_LOOKBEHIND_STATES {
                    return Err(Unbounded);
                }
                state_count + 4
            }
            Expr::AtomicGroup(inner) => {
                self.has_several_engines = true;
                self.state_count(inner, level + 1)? + 4
            }
            Expr::GeneralNewline { .. } => {
                self.has_several_engines = true;
                NEWLINE_STATES
            }
            Expr::Assertion(_)
            | Expr::Backref { .. }
            | Expr::KeepOut
            | Expr::ContinueFromPreviousMatchEnd => {
                self.has_several_engines = true;
                4
            }
            Expr::SubroutineCall(_)
            | Expr::BackrefWithRelativeRecursionLevel { .. }
            | Expr::BackrefExistsCondition { .. }
            | Expr::Conditional { .. }
            | Expr::BacktrackingControlVerb(_)
            | Expr::Absent(_)
            | Expr::DefineGroup { .. }
            | Expr::AstNode(..) => return Err(Unbounded),
        };
        Ok(state_count.min(MAX_STATES))
    }
}

#[cfg(test)]
mod tests;
