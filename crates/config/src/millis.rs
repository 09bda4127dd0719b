use std::fmt;
use std::time::Duration;

use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// Maximum duration of a setting: one day. A longer duration is probably in the wrong unit, and the
/// limit ensures that adding the duration to a point in time does not overflow.
pub(super) const MAX_MS: u64 = 24 * 60 * 60 * 1000;

/// Reads whole milliseconds, at least one.
pub(super) fn read_positive<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Duration, D::Error> {
    deserializer.deserialize_u64(MillisVisitor { min_millis: 1 })
}

/// Reads whole milliseconds; zero is allowed.
pub(super) fn read_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    deserializer.deserialize_u64(MillisVisitor { min_millis: 0 })
}

/// Reads whole milliseconds, at least one, for an optional key.
pub(super) fn read_optional_positive<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    read_positive(deserializer).map(Some)
}

/// Reads whole milliseconds for an optional key; zero is allowed.
pub(super) fn read_optional<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    read_any(deserializer).map(Some)
}

struct MillisVisitor {
    min_millis: u64,
}

impl Visitor<'_> for MillisVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "whole milliseconds from {} to {MAX_MS}", self.min_millis)
    }

    fn visit_u64<E: Error>(self, millis: u64) -> Result<Duration, E> {
        if (self.min_millis..=MAX_MS).contains(&millis) {
            Ok(Duration::from_millis(millis))
        } else {
            Err(E::invalid_value(Unexpected::Unsigned(millis), &self))
        }
    }

    fn visit_i64<E: Error>(self, millis: i64) -> Result<Duration, E> {
        match u64::try_from(millis) {
            Ok(millis) => self.visit_u64(millis),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(millis), &self)),
        }
    }
}
