//! Converts durations from PHP code.

use std::time::Duration;

use crate::exception;
use crate::zend::Result;

/// Maximum duration: about 136 years. Larger durations could overflow a clock.
const MAX_SECONDS: u32 = u32::MAX;

/// Converts a duration in seconds.
///
/// # Errors
/// An `InvalidInputException` for a duration that is negative, not finite, or longer than
/// [`MAX_SECONDS`].
pub fn parse_seconds(parameter: &str, seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| *duration <= Duration::from_secs(MAX_SECONDS.into()))
        .ok_or_else(|| {
            exception::invalid_input(format!(
                "{parameter} must be a number of seconds from 0 to {MAX_SECONDS}"
            ))
        })
}
