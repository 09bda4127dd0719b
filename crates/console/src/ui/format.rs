//! Times, durations, sizes and numbers.

use std::time::Duration;

use maud::{Markup, html};

/// Shows a time in RFC 3339. The script shows the time in the browser's time zone.
pub(crate) fn time(rfc3339: &str) -> Markup {
    let utc = rfc3339
        .split('.')
        .next()
        .unwrap_or_default()
        .trim_end_matches('Z');
    html! { time datetime=(rfc3339) { (utc.replace('T', " ")) " UTC" } }
}

/// Returns a duration with a unit that fits its length, such as `1.3 ms` or `2 min 5 s`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match duration.as_secs() {
        0 if seconds < 0.001 => format!("{:.0} µs", seconds * 1e6),
        0 if seconds < 0.1 => format!("{:.1} ms", seconds * 1e3),
        0 => format!("{:.0} ms", seconds * 1e3),
        1..60 => format!("{seconds:.1} s"),
        total @ 60..3_600 => format!("{} min {} s", total / 60, total % 60),
        total @ 3_600..86_400 => format!("{} h {} min", total / 3_600, total % 3_600 / 60),
        total => format!("{} d {} h", total / 86_400, total % 86_400 / 3_600),
    }
}

/// Returns a duration in milliseconds with a unit.
pub(crate) fn millis(millis: f64) -> String {
    duration(Duration::try_from_secs_f64(millis / 1e3).unwrap_or_default())
}

/// Returns a number of bytes with a unit, such as `3.8 KiB`.
pub(crate) fn byte_count(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// Returns a number with a comma before every three digits.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a part of a whole as a percentage, such as `2.5 %`.
pub(crate) fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

/// Returns a count with its noun, such as `1 call` or `2 calls`.
pub(crate) fn count(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", number(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_units() {
        let texts = [
            duration(Duration::from_micros(40)),
            duration(Duration::from_micros(1_340)),
            millis(250.0),
            duration(Duration::from_secs(125)),
            duration(Duration::from_secs(90_000)),
            byte_count(1023),
            byte_count(3_900),
            byte_count(u64::MAX),
            number(1_234_567),
            count(1, "call"),
            count(2_000, "call"),
        ];
        assert_eq!(
            texts,
            [
                "40 µs",
                "1.3 ms",
                "250 ms",
                "2 min 5 s",
                "1 d 1 h",
                "1023 B",
                "3.8 KiB",
                "16777216.0 TiB",
                "1,234,567",
                "1 call",
                "2,000 calls"
            ]
        );
    }

    #[test]
    fn a_time_is_shown_in_utc_without_the_script() {
        let shown = time("2026-11-30T02:18:57.123Z").into_string();
        assert_eq!(
            shown,
            "<time datetime=\"2026-11-30T02:18:57.123Z\">2026-11-30 02:18:57 UTC</time>"
        );
    }
}
