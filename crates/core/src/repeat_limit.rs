use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Minimum time between two log lines of a failure that repeats.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Limits the log lines of a failure that repeats with every call, so that callers cannot fill the
/// log: one line at once, then one line in ten seconds with the number of failures since.
///
/// ```
/// use pillion_core::RepeatLimit;
/// let limit = RepeatLimit::new();
/// assert_eq!(limit.failed(), Some(0));
/// assert_eq!(limit.failed(), None);
/// assert_eq!(limit.succeeded(), Some(1));
/// assert_eq!(limit.succeeded(), None);
/// ```
#[derive(Debug, Default)]
pub struct RepeatLimit {
    has_failed: AtomicBool,
    last_line: Mutex<Option<LastLine>>,
}

#[derive(Debug)]
struct LastLine {
    at: Instant,
    /// Number of failures since the last log line.
    unlogged: u64,
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

    /// Counts a failure. Returns the number of failures since the last line if this failure should
    /// be logged.
    pub fn failed(&self) -> Option<u64> {
        let mut last_line = self.last_line.lock();
        self.has_failed.store(true, Ordering::Relaxed);
        let unlogged = match &mut *last_line {
            Some(last) if last.at.elapsed() < LINE_INTERVAL => {
                last.unlogged += 1;
                return None;
            }
            Some(last) => last.unlogged,
            None => 0,
        };
        *last_line = Some(LastLine {
            at: Instant::now(),
            unlogged: 0,
        });
        Some(unlogged)
    }

    /// Ends a series of failures. Returns the number of failures since the last line if there was
    /// any failure.
    pub fn succeeded(&self) -> Option<u64> {
        if !self.has_failed.load(Ordering::Relaxed) {
            return None;
        }
        let mut last_line = self.last_line.lock();
        self.has_failed.store(false, Ordering::Relaxed);
        last_line
            .as_mut()
            .map(|last| std::mem::take(&mut last.unlogged))
    }
}
