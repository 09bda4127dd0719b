use std::fmt;
use std::time::Duration;

use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// Maximum duration of a setting: one day. A longer duration is probably in the wrong unit, and
/// adding the duration to a point in time must not overflow.
pub(super) const MAX_MS: u64 = 24 * 60 * 60 * 1000;

/// Reads whole milliseconds, at least one.
pub(super) fn positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    deserializer.deserialize_u64(Millis { min: 1 })
}

/// Reads whole milliseconds; zero is allowed.
pub(super) fn any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    deserializer.deserialize_u64(Millis { min: 0 })
}

/// Reads whole milliseconds, at least one, for an optional key.
pub(super) fn optional<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    positive(deserializer).map(Some)
}

/// Reads whole milliseconds for an optional key; zero is allowed.
pub(super) fn optional_millis<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    any(deserializer).map(Some)
}

struct Millis {
    min: u64,
}

impl Visitor<'_> for Millis {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "whole milliseconds from {} to {MAX_MS}", self.min)
    }

    fn visit_u64<E: Error>(self, millis: u64) -> Result<Duration, E> {
        if (self.min..=MAX_MS).contains(&millis) {
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
