use std::time::SystemTime;

use jiff::Timestamp;

/// A time as the API says it: ISO 8601 in UTC, with milliseconds.
pub(super) fn of(time: SystemTime) -> String {
    let timestamp = Timestamp::try_from(time).unwrap_or_default();
    format!("{timestamp:.3}")
}
