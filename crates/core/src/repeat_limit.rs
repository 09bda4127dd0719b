use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Minimum time between two log lines of a failure that repeats.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Limits the log lines of a failure that repeats with every call, so that callers cannot fill the
/// log. The first failure is logged at once; after that, at most one line is logged in ten seconds,
/// with the number of failures since the previous line.
///
/// ```
/// use pillion_core::RepeatLimit;
/// let limit = RepeatLimit::new();
/// assert_eq!(limit.record_failure(), Some(0));
/// assert_eq!(limit.record_failure(), None);
/// assert_eq!(limit.record_success(), Some(1));
/// assert_eq!(limit.record_success(), None);
/// ```
#[derive(Debug, Default)]
pub struct RepeatLimit {
    has_failed: AtomicBool,
    last_line: Mutex<Option<LastLine>>,
}

#[derive(Debug)]
struct LastLine {
    logged_at: Instant,
    /// Number of failures since the last log line.
    unlogged_failures: u64,
}

impl RepeatLimit {
    /// Creates a limit for one kind of failure.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            has_failed: AtomicBool::new(false),
            last_line: Mutex::new(None),
        }
    }

    /// Counts a failure. If this failure should be logged, returns the number of failures since the
    /// previous log line.
    pub fn record_failure(&self) -> Option<u64> {
        let mut last_line = self.last_line.lock();
        self.has_failed.store(true, Ordering::Relaxed);
        let unlogged_failures = match &mut *last_line {
            Some(last) if last.logged_at.elapsed() < LOG_INTERVAL => {
                last.unlogged_failures += 1;
                return None;
            }
            Some(last) => last.unlogged_failures,
            None => 0,
        };
        *last_line = Some(LastLine {
            logged_at: Instant::now(),
            unlogged_failures: 0,
        });
        Some(unlogged_failures)
    }

    /// Ends a series of failures. Returns the number of failures since the last log line; `None` if
    /// there was no failure since the last success.
    pub fn record_success(&self) -> Option<u64> {
        if !self.has_failed.load(Ordering::Relaxed) {
            return None;
        }
        let mut last_line = self.last_line.lock();
        self.has_failed.store(false, Ordering::Relaxed);
        last_line
            .as_mut()
            .map(|last| std::mem::take(&mut last.unlogged_failures))
    }
}
