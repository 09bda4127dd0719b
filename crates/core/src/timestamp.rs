use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time, in whole milliseconds since the Unix epoch.
///
/// ```
/// use std::time::Duration;
/// use pillion_core::store::Timestamp;
/// let start = Timestamp::from_millis(1_000);
/// assert_eq!(start.plus(Duration::from_secs(2)).as_millis(), 3_000);
/// assert!(Timestamp::now() > start);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Returns the current time of the system clock.
    #[must_use]
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// Returns the time this many milliseconds after the Unix epoch.
    #[must_use]
    pub const fn from_millis(milliseconds: i64) -> Self {
        Self(milliseconds)
    }

    /// Returns the milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Adds a duration, saturating at the latest time.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis(duration)))
    }

    /// Subtracts a duration, saturating at the earliest time.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(millis(duration)))
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        Self(match time.duration_since(UNIX_EPOCH) {
            Ok(since_epoch) => millis(since_epoch),
            Err(error) => -millis(error.duration()),
        })
    }
}
