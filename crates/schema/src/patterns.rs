//! The cost of matching object keys against the patterns of a schema.
//!
//! The validator matches all keys against all patterns of a `patternProperties` without checking
//! the clock, so the number of matches is computed in advance.

use serde_json::Value;

use super::CheckAborted;

/// Maximum total cost of the matches for one value, in units of a simple match; takes about a
/// second.
const MAX_MATCH_COST: u64 = 1_000_000;

/// Cost of a match of a pattern that may backtrack, in units of a simple match.
const BACKTRACKING_MATCH_COST: u64 = 250;

/// Number of bytes of a property name that cost as much as one simple match.
const NAME_BYTES_PER_MATCH: u64 = 64;

/// Measures of the patterns of a schema.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Patterns {
    /// Number of all patterns.
    pub(super) count: usize,
    /// Number of patterns that property names are matched against.
    name_pattern_count: u64,
    /// Cost of matching a short property name against all patterns that property names are matched
    /// against.
    cost_per_name: u64,
    /// Number of patterns that may take long to match even a short text.
    complex_count: usize,
}

/// Maximum number of patterns in a schema for a brief check.
const MAX_BRIEF_CHECK_PATTERNS: usize = 32;

/// Maximum size of a simple pattern, in bytes.
const MAX_SIMPLE_PATTERN_BYTES: usize = 128;

impl Patterns {
    /// Counts a pattern, whatever keyword contains it.
    pub(super) fn add(&mut self, pattern: &str) {
        self.count += 1;
        // A pattern with a counted repetition is not simple, because the repetition multiplies the
        // size of the repeated part.
        let is_simple = pattern.len() <= MAX_SIMPLE_PATTERN_BYTES
            && !may_backtrack(pattern)
            && !pattern.contains('{');
        self.complex_count += usize::from(!is_simple);
    }

    /// Returns whether all patterns match a short text quickly.
    pub(super) fn are_simple(&self) -> bool {
        self.count <= MAX_BRIEF_CHECK_PATTERNS && self.complex_count == 0
    }

    /// Adds a pattern that property names are matched against.
    pub(super) fn add_name_pattern(&mut self, pattern: &str) {
        self.name_pattern_count += 1;
        self.cost_per_name += if may_backtrack(pattern) {
            BACKTRACKING_MATCH_COST
        } else {
            1
        };
    }

    /// Checks that the cost of matching the property names of `value` is at most [`MAX_MATCH_COST`].
    ///
    /// # Errors
    /// [`CheckAborted::TooManyNames`] if `value` has too many property names for these patterns.
    pub(super) fn check_names(&self, value: &Value) -> Result<(), CheckAborted> {
        let mut cost_left = MAX_MATCH_COST;
        if self.name_pattern_count == 0 || self.subtract_cost(value, &mut cost_left).is_some() {
            return Ok(());
        }
        Err(CheckAborted::TooManyNames)
    }

    /// Subtracts the cost of matching the names in `value` from `cost_left`. Returns `None` if
    /// the cost is higher than `cost_left`.
    fn subtract_cost(&self, value: &Value, cost_left: &mut u64) -> Option<()> {
        match value {
            Value::Object(members) => members.iter().try_for_each(|(name, member)| {
                let bytes = u64::try_from(name.len()).ok()?;
                let cost =
                    self.cost_per_name + bytes / NAME_BYTES_PER_MATCH * self.name_pattern_count;
                *cost_left = cost_left.checked_sub(cost)?;
                self.subtract_cost(member, cost_left)
            }),
            Value::Array(items) => items
                .iter()
                .try_for_each(|item| self.subtract_cost(item, cost_left)),
            _ => Some(()),
        }
    }
}

/// Returns whether a pattern may have look-around, back-references or atomic groups. Also returns
/// `true` for named groups.
pub(super) fn may_backtrack(pattern: &str) -> bool {
    let mut quantifiers = ["++", "*+", "?+", "}+"].into_iter();
    let has_possessive_quantifier = quantifiers.any(|quantifier| pattern.contains(quantifier));
    let has_segment_with = |opening, is_special: fn(char) -> bool| {
        let mut segments = pattern.split(opening).skip(1);
        segments.any(|segment| segment.starts_with(is_special))
    };
    has_possessive_quantifier
        || has_segment_with("(?", |c| c != ':')
        || has_segment_with("\\", |c| c.is_ascii_digit() || "kKgG".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_cost_is_names_times_patterns() {
        let value = |names: usize| {
            let object: serde_json::Map<_, _> =
                (0..names).map(|nth| (nth.to_string(), json!(1))).collect();
            json!([{ "inner": object }])
        };
        for (pattern, count, names, is_within_limit) in [
            ("^[a-z]+$", 500, 1_900, true),
            ("^[a-z]+$", 500, 2_100, false),
            ("^(?!x-)", 1, 3_900, true),
            ("^(?!x-)", 1, 4_100, false),
            ("^(?:x|y)", 1, 4_100, true),
            ("(a)\\1", 1, 4_100, false),
            ("a++", 1, 4_100, false),
        ] {
            let mut patterns = Patterns::default();
            (0..count).for_each(|_| patterns.add_name_pattern(pattern));
            let is_ok = patterns.check_names(&value(names)).is_ok();
            assert_eq!(is_ok, is_within_limit, "{pattern} {count} {names}");
        }
        let mut patterns = Patterns::default();
        (0..500).for_each(|_| patterns.add_name_pattern("a"));
        let long = json!({"a".repeat(1_000_000): 1});
        assert_eq!(patterns.check_names(&long), Err(CheckAborted::TooManyNames));
        assert_eq!(Patterns::default().check_names(&long), Ok(()));
    }
}
