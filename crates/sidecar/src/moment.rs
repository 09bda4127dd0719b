//! Formats timestamps of the store.

use jiff::Timestamp as Moment;
use pillion_core::store::Timestamp;

/// Formats a timestamp in RFC 3339, in UTC, with milliseconds.
pub(crate) fn text_of(moment: Timestamp) -> String {
    Moment::from_millisecond(moment.as_millis()).map_or_else(
        |_| moment.as_millis().to_string(),
        |moment| format!("{moment:.3}"),
    )
}
