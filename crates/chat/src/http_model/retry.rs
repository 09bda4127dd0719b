use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::RETRY_AFTER;
use rand::RngExt as _;

/// The maximum pause before a retry if the provider does not request a longer one.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Returns the pause before the next retry after `retries` retries: the time that the provider
/// requested, or else a random time between half the pause and the whole pause, which doubles with
/// each retry. The random time prevents clients that failed together from retrying together.
pub(super) fn pause(first: Duration, retries: u32, requested: Option<Duration>) -> Duration {
    let max_pause = first
        .saturating_mul(1 << retries.min(16))
        .min(MAX_RETRY_INTERVAL);
    let share = rand::rng().random_range(0.5..=1.0);
    let own_pause = max_pause.mul_f64(share);
    // Clients that get the same time would all retry at that time, so a random time is added.
    requested.map_or(own_pause, |requested| {
        requested + first.min(requested).mul_f64(share / 10.0)
    })
}

/// Parses `Retry-After`, in seconds or as a date, or OpenAI's more precise `retry-after-ms`.
pub(super) fn parse_retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let milliseconds = text("retry-after-ms").and_then(|text| text.parse().ok());
    if let Some(milliseconds) = milliseconds {
        return seconds(milliseconds, 1000.0);
    }
    let text = text(RETRY_AFTER.as_str())?;
    if let Ok(number) = text.parse() {
        return seconds(number, 1.0);
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

fn seconds(number: f64, a_second: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number / a_second).ok()
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
            let pause = pause(first, retries, None);
            let max_pause = Duration::from_millis(max_pause);
            assert!(
                (max_pause / 2..=max_pause).contains(&pause),
                "{retries}: {pause:?}"
            );
        }
        let requested = Duration::from_secs(3);
        let pause = pause(first, 0, Some(requested));
        assert!((requested..requested + first).contains(&pause));
    }
}
