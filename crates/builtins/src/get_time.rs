//! The current date and time in any time zone.
//!
//! Time zones come from the compiled-in IANA database, never from files. A name such as
//! `../etc/passwd` is an unknown zone, and no file is opened.

mod format;

use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use pillion_core::tool::{
    CallContext, JsonObject, ParameterType, Tool, ToolDefinition, ToolFailure, ToolFuture,
    ToolOutput, ToolParameter,
};
use serde_json::json;

use crate::Excerpt;
use format::TimeFormat;

/// The tool `get_time`. Arguments: `{timezone = "UTC", format = "full"}`. Result: text for the
/// model, `data = {formatted, iso, format_used}`, and the metadata `timezone` and `day_of_week`.
///
/// ```
/// use pillion_builtins::GetTime;
/// use std::time::SystemTime;
/// assert!(GetTime::new("Europe/Berlin", SystemTime::now).is_ok());
/// assert_eq!(
///     GetTime::new("Mars/Olympus", SystemTime::now).unwrap_err().to_string(),
///     "Unknown timezone: Mars/Olympus",
/// );
/// ```
pub struct GetTime {
    definition: ToolDefinition,
    time_zones: TimeZoneDatabase,
    default_zone: String,
    clock: Box<dyn Fn() -> SystemTime + Send + Sync>,
}

/// Error for a time zone that is not in the IANA database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Unknown timezone: {name}")]
pub struct UnknownTimezone {
    /// The beginning of the unknown name.
    pub name: Excerpt,
}

/// Uses the system clock, and UTC as the default time zone.
impl Default for GetTime {
    fn default() -> Self {
        Self::new("UTC", SystemTime::now).expect("the database has UTC")
    }
}

impl std::fmt::Debug for GetTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GetTime")
            .field("default_zone", &self.default_zone)
            .finish_non_exhaustive()
    }
}

impl GetTime {
    /// Creates the tool with a clock, and with a time zone for calls that name no time zone.
    ///
    /// # Errors
    /// [`UnknownTimezone`] if the IANA database does not contain `default_zone`.
    pub fn new(
        default_zone: &str,
        clock: impl Fn() -> SystemTime + Send + Sync + 'static,
    ) -> Result<Self, UnknownTimezone> {
        let time_zones = TimeZoneDatabase::bundled();
        find_time_zone(&time_zones, default_zone)?;
        Ok(Self {
            definition: definition(default_zone),
            time_zones,
            default_zone: default_zone.to_owned(),
            clock: Box::new(clock),
        })
    }

    fn run(&self, arguments: &JsonObject) -> Result<ToolOutput, ToolFailure> {
        let text_argument = |key: &str| arguments.get(key).and_then(|value| value.as_str());
        let zone = find_time_zone(
            &self.time_zones,
            text_argument("timezone").unwrap_or(&self.default_zone),
        )?;
        let format =
            text_argument("format").map_or(Ok(TimeFormat::default()), TimeFormat::from_name)?;
        let now = Timestamp::try_from((self.clock)())
            .map_err(|_| {
                ToolFailure::internal("The system clock is set to a date after the year 9999")
            })?
            .to_zoned_datetime(zone);
        let zone_name = now.time_zone().iana_name().unwrap_or_default().to_owned();
        Ok(ToolOutput::text(format.to_text(&now))
            .with_data(json!({
                "formatted": format.to_json(&now),
                "iso": format::format_iso(&now),
                "format_used": format.as_str(),
            }))
            .with_metadata("timezone", json!(zone_name))
            .with_metadata("day_of_week", json!(format::format_day_of_week(&now))))
    }
}

fn definition(default_zone: &str) -> ToolDefinition {
    let timezone = ToolParameter::new("timezone", ParameterType::String)
        .describe("Timezone name (e.g., 'America/New_York', 'Europe/London', 'UTC')")
        .default_value(json!(default_zone));
    let format = ToolParameter::new("format", ParameterType::String)
        .describe("Output format: 'full', 'date', 'time', 'iso' or 'timestamp'")
        .default_value(json!(TimeFormat::default().as_str()))
        .one_of(TimeFormat::ALL.map(|format| json!(format.as_str())));
    ToolDefinition::builder(
        "get_time",
        "Get current date and time, optionally in a specific timezone.",
    )
    .category("utility")
    .parameters([timezone, format])
    .build()
    .expect("the definition is constant but for a default, and a test builds it")
}

/// Looks up a time zone, case-insensitively.
fn find_time_zone(time_zones: &TimeZoneDatabase, name: &str) -> Result<TimeZone, UnknownTimezone> {
    time_zones
        .get(name)
        .ok()
        // `Etc/Unknown` is in the database, but represents unknown zones.
        .filter(|zone| !zone.is_unknown())
        .ok_or_else(|| UnknownTimezone {
            name: Excerpt::new(name),
        })
}

impl From<UnknownTimezone> for ToolFailure {
    fn from(error: UnknownTimezone) -> Self {
        Self::invalid_input(error.to_string())
    }
}

impl Tool for GetTime {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call(self: Arc<Self>, arguments: JsonObject, _context: CallContext) -> ToolFuture {
        Box::pin(async move { self.run(&arguments) })
    }
}
