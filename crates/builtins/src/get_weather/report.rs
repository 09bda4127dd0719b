use pillion_core::tool::ToolOutput;
use serde_json::{Value, json};

use super::Units;

/// The weather at a place, as a service reports it.
#[derive(Debug)]
pub(super) struct WeatherReport {
    pub(super) source: &'static str,
    /// The full name of the place.
    pub(super) location: String,
    /// Latitude and longitude, in degrees.
    pub(super) coordinates: Option<(f64, f64)>,
    /// The time at which the weather was observed, in RFC 3339.
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

impl WeatherReport {
    /// Converts the report to the tool's output.
    pub(super) fn into_output(self, units: Units) -> ToolOutput {
        let Weather {
            celsius,
            conditions,
            humidity,
            wind_kmh,
        } = self.weather;
        let (temperature, unit_sign) = match units {
            Units::Celsius => (to_json_number(celsius), "°C"),
            // The temperature is always a float, even if it is whole, for compatibility.
            Units::Fahrenheit => (json!(round_to_tenths(celsius * 9.0 / 5.0 + 32.0)), "°F"),
        };
        let mut text = format!("{}: {temperature} {unit_sign}, {conditions}", self.location);
        let humidity_percent = humidity.map(to_json_number);
        if let Some(percent) = &humidity_percent {
            text += &format!(", humidity {percent} %");
        }
        let wind_speed = wind_kmh.map(to_json_number);
        if let Some(wind_speed) = &wind_speed {
            text += &format!(", wind {wind_speed} km/h");
        }
        let mut output = ToolOutput::text(text)
            .with_data(json!({
                "location": self.location,
                "temperature": temperature,
                "units": units.as_str(),
                "conditions": conditions,
                "humidity": humidity_percent,
                "wind_speed": wind_speed,
                "wind_speed_units": "km/h",
            }))
            .with_metadata("source", json!(self.source));
        if let Some((latitude, longitude)) = self.coordinates {
            output = output
                .with_metadata("latitude", json!(latitude))
                .with_metadata("longitude", json!(longitude));
        }
        if let Some(observed_at) = self.observed_at {
            output = output.with_metadata("observed_at", json!(observed_at));
        }
        output
    }
}

fn round_to_tenths(value: f64) -> f64 {
    // Adds 0.0, which converts -0.0 to 0.0.
    (value * 10.0).round() / 10.0 + 0.0
}

/// Returns the value with at most one decimal, as an integer if it is whole.
fn to_json_number(value: f64) -> Value {
    let rounded_value = round_to_tenths(value);
    if rounded_value.fract() != 0.0 || rounded_value.abs() >= 1e15 {
        return json!(rounded_value);
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to be whole and small"
    )]
    let integer = rounded_value as i64;
    json!(integer)
}
