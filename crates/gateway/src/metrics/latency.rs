use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets, in seconds.
pub const BUCKET_BOUNDS_SECONDS: [f64; 15] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
    30.0,
];

/// The number of equal parts into which each bucket is divided for estimating percentiles.
const PARTS_PER_BUCKET: usize = 16;

/// A histogram of durations.
#[derive(Debug)]
pub struct LatencyHistogram {
    /// The number of durations in each part of each bucket. The last bucket is for durations above
    /// the last bound.
    buckets: [[AtomicU64; PARTS_PER_BUCKET]; BUCKET_BOUNDS_SECONDS.len() + 1],
    total_micros: AtomicU64,
    max_micros: AtomicU64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
            total_micros: AtomicU64::new(0),
            max_micros: AtomicU64::new(0),
        }
    }
}

impl LatencyHistogram {
    /// Adds a duration.
    pub fn add(&self, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        let bucket = BUCKET_BOUNDS_SECONDS
            .iter()
            .position(|bound| seconds <= *bound)
            .unwrap_or(BUCKET_BOUNDS_SECONDS.len());
        self.buckets[bucket][part_index(bucket, seconds)].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        self.total_micros.fetch_add(micros, Ordering::Relaxed);
        self.max_micros.fetch_max(micros, Ordering::Relaxed);
    }

    /// Returns the count of each bucket with the bucket's upper bound. The counts are not
    /// cumulative, and the last bound is infinite.
    #[must_use]
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BUCKET_BOUNDS_SECONDS.iter().copied().chain([f64::INFINITY]);
        let counts = self
            .buckets
            .iter()
            .map(|parts| parts.iter().map(load_count).sum());
        bounds.zip(counts).collect()
    }

    /// Returns the number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().flatten().map(load_count).sum()
    }

    /// Returns the sum of all durations, in seconds.
    #[must_use]
    pub fn sum_seconds(&self) -> f64 {
        Duration::from_micros(self.total_micros.load(Ordering::Relaxed)).as_secs_f64()
    }

    /// Estimates the percentile `fraction` (0 to 1), in seconds; `None` without durations. The
    /// estimate differs by at most a third from a true duration of more than 0.1 ms. A duration
    /// above the last bound counts as the longest recorded duration.
    #[must_use]
    pub fn percentile(&self, fraction: f64) -> Option<f64> {
        let counts: Vec<u64> = self.buckets.iter().flatten().map(load_count).collect();
        let total_count: u64 = counts.iter().sum();
        if total_count == 0 {
            return None;
        }
        let max_seconds = Duration::from_micros(load_count(&self.max_micros)).as_secs_f64();
        let mut remaining_count = fraction * to_f64(total_count);
        for (index, count) in counts.into_iter().enumerate() {
            let count = to_f64(count);
            if count > 0.0 && count >= remaining_count {
                let (bucket, part) = (index / PARTS_PER_BUCKET, index % PARTS_PER_BUCKET);
                let (lower, upper) = bucket_bounds(bucket).unwrap_or((max_seconds, max_seconds));
                let width = (upper - lower) / to_f64(PARTS_PER_BUCKET as u64);
                let estimate = lower + width * (to_f64(part as u64) + remaining_count / count);
                return Some(estimate.min(max_seconds));
            }
            remaining_count -= count;
        }
        Some(max_seconds)
    }
}

/// Returns the bounds of a bucket, in seconds; `None` for the last, which has no upper bound.
fn bucket_bounds(bucket: usize) -> Option<(f64, f64)> {
    let upper = *BUCKET_BOUNDS_SECONDS.get(bucket)?;
    let lower = bucket
        .checked_sub(1)
        .map_or(0.0, |index| BUCKET_BOUNDS_SECONDS[index]);
    Some((lower, upper))
}

/// Returns the index of the part of a bucket that a duration belongs to.
fn part_index(bucket: usize, seconds: f64) -> usize {
    let Some((lower, upper)) = bucket_bounds(bucket) else {
        return 0;
    };
    let position = (seconds - lower) / (upper - lower) * to_f64(PARTS_PER_BUCKET as u64);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the number of parts"
    )]
    (position as usize).min(PARTS_PER_BUCKET - 1)
}

pub(super) fn load_count(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m1_percentiles_are_near_the_durations() {
        let latency = LatencyHistogram::default();
        assert_eq!(latency.percentile(0.5), None);
        for millis in [1, 1, 1, 1, 1, 1, 1, 1, 1, 400] {
            latency.add(Duration::from_millis(millis));
        }
        let median = latency.percentile(0.5).unwrap();
        assert!((0.000_9..=0.001).contains(&median), "{median}");
        let slowest = latency.percentile(0.99).unwrap();
        assert!((0.39..=0.4).contains(&slowest), "{slowest}");
        latency.add(Duration::from_secs(3600));
        assert!((latency.percentile(1.0).unwrap() - 3600.0).abs() < 1e-9);
        assert_eq!(latency.count(), 11);
        assert_eq!(latency.buckets()[3], (0.001, 9));
    }

    #[test]
    fn m1_percentiles_of_equal_durations_are_within_a_third_of_them() {
        let steps = (0..1000).map(|step| 1.02_f64.powi(step));
        for micros in steps.take_while(|micros| *micros < 3e8) {
            let latency = LatencyHistogram::default();
            let duration = Duration::from_secs_f64(micros / 1e6 + 1e-4);
            latency.add(duration);
            latency.add(duration);
            for share in [0.0, 0.5, 0.99, 1.0] {
                let estimate = latency.percentile(share).unwrap();
                let ratio = estimate / duration.as_secs_f64();
                let expected = 0.66..=1.0 + 1e-9;
                assert!(expected.contains(&ratio), "{duration:?}: {ratio}");
            }
        }
    }
}
