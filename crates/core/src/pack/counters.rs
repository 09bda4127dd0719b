use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Increasing counters by name. Names consist of lower-case letters, digits, `.` and `_`, such as
/// `llm.request.enqueued`; their number is fixed by the program.
///
/// ```
/// use pillion_core::pack::Counters;
/// let counters = Counters::new(["bell.rings", "bell.cracks"]);
/// assert_eq!(counters.add("bell.rings"), 1);
/// assert_eq!(counters.with_prefix("bell."), [("bell.cracks", 0), ("bell.rings", 1)]);
/// ```
#[derive(Debug, Default)]
pub struct Counters(Mutex<BTreeMap<&'static str, u64>>);

impl Counters {
    /// Creates these counters, set to zero.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = &'static str>) -> Self {
        let counts = names.into_iter().map(|name| (name, 0));
        Self(Mutex::new(counts.collect()))
    }

    /// Increments a counter and returns its new value.
    pub fn add(&self, name: &'static str) -> u64 {
        let mut counts = self.0.lock();
        let count = counts.entry(name).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// Returns the counters whose names begin with `prefix`, ordered by name.
    #[must_use]
    pub fn with_prefix(&self, prefix: &str) -> Vec<(&'static str, u64)> {
        let counts = self.0.lock();
        counts
            .iter()
            .map(|(name, count)| (*name, *count))
            .filter(|(name, _)| name.starts_with(prefix))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Counters;

    #[test]
    fn k1_counters_are_found_by_prefix() {
        let counters = Counters::new(["llm.sent", "format.sent"]);
        assert_eq!(counters.add("llm.sent"), 1);
        assert_eq!(counters.add("llm.failed"), 1);
        let llm = counters.with_prefix("llm.");
        assert_eq!(llm, [("llm.failed", 1), ("llm.sent", 1)]);
        assert_eq!(counters.with_prefix("").len(), 3);
        assert!(counters.with_prefix("x").is_empty());
    }
}
