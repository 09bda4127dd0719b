use pillion_core::store::Timestamp;

/// Formats a time as RFC 3339, in UTC, with milliseconds.
pub(crate) fn format_timestamp(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.as_millis())
        .map_or_else(|_| at.as_millis().to_string(), |time| format!("{time:.3}"))
}
