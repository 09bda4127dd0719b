use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::RETRY_AFTER;
use rand::RngExt as _;

/// The maximum pause before a retry if the provider does not request a longer one.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Returns the pause before the next retry, if `retries` retries have been made. If the provider
/// requested a time, the pause is at least this time. Otherwise the pause is a random time between
/// 50 and 100 % of a maximum that doubles with each retry: clients that failed at the same time do
/// not retry at the same time.
pub(super) fn next_pause(
    first_pause: Duration,
    retries: u32,
    requested_pause: Option<Duration>,
) -> Duration {
    let max_pause = first_pause
        .saturating_mul(1 << retries.min(16))
        .min(MAX_RETRY_INTERVAL);
    let jitter = rand::rng().random_range(0.5..=1.0);
    let random_pause = max_pause.mul_f64(jitter);
    // The provider may request the same time from many clients, which would then all retry at the
    // same time, so a short random time is added.
    requested_pause.map_or(random_pause, |requested_pause| {
        requested_pause + first_pause.min(requested_pause).mul_f64(jitter / 10.0)
    })
}

/// Parses `Retry-After`, in seconds or as a date, or OpenAI's more precise `retry-after-ms`.
pub(super) fn parse_retry_after(headers: &HeaderMap) -> Option<Duration> {
    let header_text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let milliseconds = header_text("retry-after-ms").and_then(|text| text.parse().ok());
    if let Some(milliseconds) = milliseconds {
        return to_duration(milliseconds, 1000.0);
    }
    let text = header_text(RETRY_AFTER.as_str())?;
    if let Ok(number) = text.parse() {
        return to_duration(number, 1.0);
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

fn to_duration(number: f64, units_per_second: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number / units_per_second).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn parse_header(name: &'static str, value: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        parse_retry_after(&headers)
    }

    #[test]
    fn h4_retry_after_is_seconds_or_a_date_or_milliseconds() {
        assert_eq!(
            parse_header("retry-after", "7"),
            Some(Duration::from_secs(7))
        );
        assert_eq!(
            parse_header("retry-after", "0.5"),
            Some(Duration::from_millis(500))
        );
        assert_eq!(
            parse_header("retry-after-ms", "40"),
            Some(Duration::from_millis(40))
        );
        let past = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(parse_header("retry-after", past), Some(Duration::ZERO));
        for unreadable in ["", "soon", "-3", "inf", "NaN"] {
            assert_eq!(
                parse_header("retry-after", unreadable),
                None,
                "{unreadable}"
            );
        }
    }

    #[test]
    fn h4_pauses_double_with_jitter() {
        let first = Duration::from_millis(100);
        for (retries, max_pause) in [(0, 100), (1, 200), (2, 400), (40, 30_000)] {
            let pause = next_pause(first, retries, None);
            let max_pause = Duration::from_millis(max_pause);
            assert!(
                (max_pause / 2..=max_pause).contains(&pause),
                "{retries}: {pause:?}"
            );
        }
        let requested = Duration::from_secs(3);
        let pause = next_pause(first, 0, Some(requested));
        assert!((requested..requested + first).contains(&pause));
    }
}
