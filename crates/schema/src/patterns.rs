//! The cost of matching object keys against the patterns of a schema.
//!
//! The validator matches all keys against all patterns of a `patternProperties` without checking
//! the clock, so the number of matches is computed in advance.

use serde_json::Value;

use super::CheckAborted;

/// Maximum cost of the matches for one value, in simple matches: about a second.
const MAX_MATCHES: u64 = 1_000_000;

/// Cost of a match of a pattern that may backtrack, in simple matches.
const BACKTRACKING_MATCH_COST: u64 = 250;

/// Number of bytes of a name whose cost equals one match.
const NAME_BYTES_PER_MATCH: u64 = 64;

/// Measures of the patterns of a schema.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Patterns {
    /// Number of all patterns.
    pub(super) count: usize,
    /// Number of patterns that property names are matched against.
    for_names: u64,
    /// Cost of matching a short property name against all patterns that property names are matched
    /// against.
    matches_a_name: u64,
    /// Number of patterns that may take long to match even a short text.
    intricate: usize,
}

/// Maximum number of patterns in a schema for a brief check.
const MAX_SIMPLE: usize = 32;

/// Maximum size of a simple pattern, in bytes.
const MAX_SIMPLE_BYTES: usize = 128;

impl Patterns {
    /// Counts a pattern, whatever keyword contains it.
    pub(super) fn add(&mut self, pattern: &str) {
        self.count += 1;
        // A counted repetition multiplies the size of the repeated pattern.
        let is_simple =
            pattern.len() <= MAX_SIMPLE_BYTES && !may_backtrack(pattern) && !pattern.contains('{');
        self.intricate += usize::from(!is_simple);
    }

    /// Returns whether all patterns match a short text quickly.
    pub(super) fn are_simple(&self) -> bool {
        self.count <= MAX_SIMPLE && self.intricate == 0
    }

    /// Adds a pattern that property names are matched against.
    pub(super) fn add_for_names(&mut self, pattern: &str) {
        self.for_names += 1;
        self.matches_a_name += if may_backtrack(pattern) {
            BACKTRACKING_MATCH_COST
        } else {
            1
        };
    }

    /// # Errors
    /// [`CheckAborted::Names`] if `value` has too many property names for these patterns.
    pub(super) fn admit(&self, value: &Value) -> Result<(), CheckAborted> {
        let mut matches_left = MAX_MATCHES;
        if self.for_names == 0 || self.subtract_cost(value, &mut matches_left).is_some() {
            return Ok(());
        }
        Err(CheckAborted::Names)
    }

    /// Subtracts the cost of matching the names in `value` from `matches_left`. Returns `None` if
    /// the cost is higher than `matches_left`.
    fn subtract_cost(&self, value: &Value, matches_left: &mut u64) -> Option<()> {
        match value {
            Value::Object(members) => members.iter().try_for_each(|(name, member)| {
                let bytes = u64::try_from(name.len()).ok()?;
                let cost = self.matches_a_name + bytes / NAME_BYTES_PER_MATCH * self.for_names;
                *matches_left = matches_left.checked_sub(cost)?;
                self.subtract_cost(member, matches_left)
            }),
            Value::Array(items) => items
                .iter()
                .try_for_each(|item| self.subtract_cost(item, matches_left)),
            _ => Some(()),
        }
    }
}

/// Returns whether a pattern may have look-around, back-references or atomic groups. Also returns
/// `true` for named groups.
pub(super) fn may_backtrack(pattern: &str) -> bool {
    let has_marks = ["++", "*+", "?+", "}+"]
        .iter()
        .any(|marks| pattern.contains(marks));
    let follows = |opening, is_odd: fn(char) -> bool| {
        let mut rest = pattern.split(opening).skip(1);
        rest.any(|after| after.starts_with(is_odd))
    };
    has_marks
        || follows("(?", |after| after != ':')
        || follows("\\", |after| {
            after.is_ascii_digit() || "kKgG".contains(after)
        })
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
        for (pattern, count, names, admitted) in [
            ("^[a-z]+$", 500, 1_900, true),
            ("^[a-z]+$", 500, 2_100, false),
            ("^(?!x-)", 1, 3_900, true),
            ("^(?!x-)", 1, 4_100, false),
            ("^(?:x|y)", 1, 4_100, true),
            ("(a)\\1", 1, 4_100, false),
            ("a++", 1, 4_100, false),
        ] {
            let mut patterns = Patterns::default();
            (0..count).for_each(|_| patterns.add_for_names(pattern));
            let is_admitted = patterns.admit(&value(names)).is_ok();
            assert_eq!(is_admitted, admitted, "{pattern} {count} {names}");
        }
        let mut patterns = Patterns::default();
        (0..500).for_each(|_| patterns.add_for_names("a"));
        let long = json!({"a".repeat(1_000_000): 1});
        assert_eq!(patterns.admit(&long), Err(CheckAborted::Names));
        assert_eq!(Patterns::default().admit(&long), Ok(()));
    }
}
