use jiff::ZonedDateTime;
use pillion_core::tool::ToolFailure;
use serde_json::{Value, json};

/// The output formats of the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum TimeFormat {
    #[default]
    Full,
    Date,
    Time,
    Iso,
    Timestamp,
}

impl TimeFormat {
    pub(super) const ALL: [Self; 5] = [
        Self::Full,
        Self::Date,
        Self::Time,
        Self::Iso,
        Self::Timestamp,
    ];

    /// Returns the format with this name. The executor rejects unknown formats, but a direct call
    /// of the tool may contain one.
    pub(super) fn from_name(name: &str) -> Result<Self, ToolFailure> {
        let mut formats = Self::ALL.into_iter();
        formats
            .find(|format| format.as_str() == name)
            .ok_or_else(|| {
                ToolFailure::invalid_input(
                    "Invalid value for format: must be one of ['full', 'date', 'time', 'iso', \
                 'timestamp']",
                )
            })
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Date => "date",
            Self::Time => "time",
            Self::Iso => "iso",
            Self::Timestamp => "timestamp",
        }
    }

    /// Returns the time as text for the model. Names of days and months are always English.
    pub(super) fn to_text(self, now: &ZonedDateTime) -> String {
        match self {
            Self::Full => now.strftime("%A, %B %d, %Y at %I:%M %p %Z").to_string(),
            Self::Date => now.strftime("%Y-%m-%d").to_string(),
            Self::Time => now.strftime("%H:%M:%S %Z").to_string(),
            Self::Iso => format_iso(now),
            Self::Timestamp => now.timestamp().as_second().to_string(),
        }
    }

    /// Returns the time for programs: text without the zone, or integer seconds since 1970.
    pub(super) fn to_json(self, now: &ZonedDateTime) -> Value {
        match self {
            Self::Full => json!(now.strftime("%Y-%m-%d %H:%M:%S").to_string()),
            Self::Date => json!(now.strftime("%Y-%m-%d").to_string()),
            Self::Time => json!(now.strftime("%H:%M:%S").to_string()),
            Self::Iso => json!(format_iso(now)),
            Self::Timestamp => json!(now.timestamp().as_second()),
        }
    }
}

/// Formats the time in ISO 8601 like Python's `isoformat`: microseconds only if they are not zero,
/// and an offset even for UTC.
pub(super) fn format_iso(now: &ZonedDateTime) -> String {
    let format = if now.timestamp().subsec_microsecond() == 0 {
        "%Y-%m-%dT%H:%M:%S%:z"
    } else {
        "%Y-%m-%dT%H:%M:%S.%6f%:z"
    };
    now.strftime(format).to_string()
}

/// Returns the English name of the weekday, such as `Tuesday`.
pub(super) fn format_day_of_week(now: &ZonedDateTime) -> String {
    now.strftime("%A").to_string()
}
