use pillion_core::store::Timestamp;

/// Formats a time as RFC 3339, in UTC, with milliseconds.
pub(crate) fn format_timestamp(timestamp: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(timestamp.as_millis()).map_or_else(
        |_| timestamp.as_millis().to_string(),
        |time| format!("{time:.3}"),
    )
}
