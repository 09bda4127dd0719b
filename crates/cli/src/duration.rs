//! Durations on the command line.

use std::time::Duration;

use pillion_core::store::Timestamp;
use pillion_gateway::timestamp::format_timestamp;

pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum age in a filter: 100 years, more than the age of any call log.
const MAX_AGE: Duration = Duration::from_secs(36_500 * DAY.as_secs());

/// Parses the timeout of an operation, such as `30`, `1.5`, `500ms` or `2m`.
pub(super) fn parse_timeout(text: &str) -> Result<Duration, String> {
    let timeout = parse_duration(text).ok_or("not a time such as 30, 500ms or 2m")?;
    if !(Duration::from_millis(1)..=DAY).contains(&timeout) {
        return Err("must be between 1 ms and one day".to_owned());
    }
    Ok(timeout)
}

/// Returns a point in time for a query parameter of the sidecar's filters. Converts an age such as
/// `1h` or `7d` to a time; leaves any other text unchanged, for the sidecar to parse.
pub(super) fn parse_point_in_time(text: &str) -> String {
    let has_unit = text.ends_with(|last: char| last.is_ascii_lowercase());
    match parse_duration(text).filter(|parsed_age| has_unit && *parsed_age <= MAX_AGE) {
        Some(parsed_age) => {
            let age_ms = i64::try_from(parsed_age.as_millis()).unwrap_or(i64::MAX);
            let now_ms = Timestamp::now().as_millis();
            format_timestamp(Timestamp::from_millis(now_ms.saturating_sub(age_ms)))
        }
        None => text.to_owned(),
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    let units = [
        ("ms", 0.001),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
        ("d", 86_400.0),
    ];
    let (number, seconds) = units
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)))
        .unwrap_or((text, 1.0));
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_have_units_and_bounds() {
        for (text, ms) in [
            ("30", 30_000),
            ("1.5", 1500),
            ("500ms", 500),
            ("2m", 120_000),
            ("3s", 3000),
            ("24h", 86_400_000),
        ] {
            assert_eq!(parse_timeout(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in [
            "", "soon", "0", "-1", "NaN", "inf", "1e9", "ms", "25h", "2d", "1e300d",
        ] {
            assert!(parse_timeout(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_duration_is_a_point_in_the_past_and_other_text_stays() {
        let times = ["36500d", "2d", "3h", "2h", "90m", "1s", "0s"].map(parse_point_in_time);
        assert!(times.is_sorted(), "{times:?}");
        assert!(times.iter().all(|time| time.ends_with('Z')), "{times:?}");
        for text in [
            "2026-11-21T18:00:00Z",
            "2026",
            "-1h",
            "yesterday",
            "1e300d",
            "",
        ] {
            assert_eq!(parse_point_in_time(text), text);
        }
    }
}
