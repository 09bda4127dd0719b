use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets, in seconds: from a call without I/O to the longest useful
/// timeout.
pub const BUCKET_BOUNDS_SECONDS: [f64; 15] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
    30.0,
];

/// A histogram of durations.
#[derive(Debug, Default)]
pub struct Latency {
    /// One bucket per bound, and one for longer durations.
    buckets: [AtomicU64; BUCKET_BOUNDS_SECONDS.len() + 1],
    micros: AtomicU64,
}

impl Latency {
    /// Adds a duration.
    pub fn add(&self, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        let place = BUCKET_BOUNDS_SECONDS
            .iter()
            .position(|bound| seconds <= *bound);
        let place = place.unwrap_or(BUCKET_BOUNDS_SECONDS.len());
        self.buckets[place].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns the counts with the upper bounds of their buckets, not cumulative; the last bound is
    /// infinite.
    #[must_use]
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BUCKET_BOUNDS_SECONDS.iter().copied().chain([f64::INFINITY]);
        let counts = self
            .buckets
            .iter()
            .map(|bucket| bucket.load(Ordering::Relaxed));
        bounds.zip(counts).collect()
    }

    /// Returns the number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets
            .iter()
            .map(|bucket| bucket.load(Ordering::Relaxed))
            .sum()
    }

    /// Returns the sum of all durations, in seconds.
    #[must_use]
    pub fn sum_seconds(&self) -> f64 {
        Duration::from_micros(self.micros.load(Ordering::Relaxed)).as_secs_f64()
    }

    /// Estimates a percentile (0 to 1) from the buckets, in seconds; `None` without durations. A
    /// duration above every bound counts as the last bound.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let buckets = self.buckets();
        let total: u64 = buckets.iter().map(|(_, count)| count).sum();
        if total == 0 {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let wanted = share * total as f64;
        let (mut below, mut lower) = (0.0, 0.0);
        for (upper, count) in buckets {
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let count = count as f64;
            if count > 0.0 && below + count >= wanted {
                if upper > BUCKET_BOUNDS_SECONDS[BUCKET_BOUNDS_SECONDS.len() - 1] {
                    return Some(lower);
                }
                return Some(lower + (upper - lower) * ((wanted - below) / count));
            }
            below += count;
            lower = upper.min(BUCKET_BOUNDS_SECONDS[BUCKET_BOUNDS_SECONDS.len() - 1]);
        }
        Some(lower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m1_percentiles_are_in_the_right_bucket() {
        let latency = Latency::default();
        assert_eq!(latency.percentile(0.5), None);
        for millis in [1, 1, 1, 1, 1, 1, 1, 1, 1, 400] {
            latency.add(Duration::from_millis(millis));
        }
        let median = latency.percentile(0.5).unwrap();
        assert!((0.000_5..=0.001).contains(&median), "{median}");
        let slowest = latency.percentile(0.99).unwrap();
        assert!((0.25..=0.5).contains(&slowest), "{slowest}");
        latency.add(Duration::from_secs(3600));
        assert!((latency.percentile(1.0).unwrap() - 30.0).abs() < 1e-9);
        assert_eq!(latency.count(), 11);
    }
}
