use pillion_core::tool::ToolOutput;
use serde_json::{Value, json};

use super::Units;

/// The weather at a place, as a service reports it.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) source: &'static str,
    /// The full name of the place.
    pub(super) location: String,
    /// Latitude and longitude, in degrees.
    pub(super) coordinates: Option<(f64, f64)>,
    /// When the weather was observed, in RFC 3339.
    pub(super) observed_at: Option<String>,
    pub(super) weather: Weather,
}

/// The weather in service-independent units.
#[derive(Debug)]
pub(super) struct Weather {
    pub(super) celsius: f64,
    pub(super) conditions: String,
    /// The relative humidity, in percent.
    pub(super) humidity: Option<f64>,
    pub(super) wind_kmh: Option<f64>,
}

impl Report {
    /// Converts the report to the tool's output.
    pub(super) fn into_output(self, units: Units) -> ToolOutput {
        let Weather {
            celsius,
            conditions,
            humidity,
            wind_kmh,
        } = self.weather;
        let (temperature, sign) = match units {
            Units::Celsius => (number(celsius), "°C"),
            // The temperature is always a float, even if it is whole, for compatibility.
            Units::Fahrenheit => (json!(round_to_tenths(celsius * 9.0 / 5.0 + 32.0)), "°F"),
        };
        let mut text = format!("{}: {temperature} {sign}, {conditions}", self.location);
        let humidity_percent = humidity.map(number);
        if let Some(percent) = &humidity_percent {
            text += &format!(", humidity {percent} %");
        }
        let wind = wind_kmh.map(number);
        if let Some(wind) = &wind {
            text += &format!(", wind {wind} km/h");
        }
        let mut output = ToolOutput::text(text)
            .with_data(json!({
                "location": self.location,
                "temperature": temperature,
                "units": units.as_str(),
                "conditions": conditions,
                "humidity": humidity_percent,
                "wind_speed": wind,
                "wind_speed_units": "km/h",
            }))
            .with_metadata("source", json!(self.source));
        if let Some((latitude, longitude)) = self.coordinates {
            output = output
                .with_metadata("latitude", json!(latitude))
                .with_metadata("longitude", json!(longitude));
        }
        if let Some(at) = self.observed_at {
            output = output.with_metadata("observed_at", json!(at));
        }
        output
    }
}

fn round_to_tenths(value: f64) -> f64 {
    // Adding 0.0 converts -0.0 to 0.0.
    (value * 10.0).round() / 10.0 + 0.0
}

/// Returns the value with at most one decimal, as an integer if it is whole.
fn number(value: f64) -> Value {
    let rounded = round_to_tenths(value);
    if rounded.fract() != 0.0 || rounded.abs() >= 1e15 {
        return json!(rounded);
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to be whole and small"
    )]
    let whole = rounded as i64;
    json!(whole)
}
