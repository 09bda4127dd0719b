//! Detects changes of the system clock.

use std::time::{Duration, Instant, SystemTime};

/// Maximum difference that is ignored: clocks are adjusted now and then.
const MAX_CLOCK_DRIFT: Duration = Duration::from_secs(300);

/// Compares the system clock with a monotonic clock at intervals.
#[derive(Debug)]
pub(crate) struct ClockWatch {
    clock: SystemTime,
    steady: Instant,
}

impl ClockWatch {
    pub(crate) fn start() -> Self {
        Self {
            clock: SystemTime::now(),
            steady: Instant::now(),
        }
    }

    /// Returns by how much the clock was set since the last call: `Ok` for forward, `Err` for back,
    /// `None` if it was not set or only slightly. A suspended system counts as set forward.
    pub(crate) fn take_change(&mut self) -> Option<Result<Duration, Duration>> {
        let before = std::mem::replace(self, Self::start());
        let expected = before.clock + (self.steady - before.steady);
        difference(expected, self.clock)
    }
}

fn difference(expected: SystemTime, found: SystemTime) -> Option<Result<Duration, Duration>> {
    let difference = found.duration_since(expected);
    let difference = difference.map_err(|error| error.duration());
    let (Ok(size) | Err(size)) = difference;
    (size > MAX_CLOCK_DRIFT).then_some(difference)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clock_that_was_set_is_detected() {
        assert_eq!(ClockWatch::start().take_change(), None);
        let now = SystemTime::now();
        let (little, much) = (Duration::from_secs(60), Duration::from_secs(7200));
        assert_eq!(difference(now, now + little), None);
        assert_eq!(difference(now + little, now), None);
        assert_eq!(difference(now, now + much), Some(Ok(much)));
        assert_eq!(difference(now + much, now), Some(Err(much)));
    }
}
