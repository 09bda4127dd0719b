//! The current weather from Open-Meteo, which needs no API key, or from OpenWeatherMap; or mock
//! weather for development.

mod location;
mod mock;
mod open_meteo;
mod open_weather_map;
mod provider;
mod report;
mod settings;
mod state_codes;

use std::sync::Arc;
use std::time::Duration;

use pillion_core::tool::{
    CallContext, ErrorCode, JsonObject, ParameterType, Tool, ToolDefinition, ToolFailure,
    ToolFuture, ToolOutput, ToolParameter,
};
use serde_json::json;

use crate::arguments;
use location::RequestedLocation;
use open_meteo::OpenMeteo;
use open_weather_map::OpenWeatherMap;
use report::{Weather, WeatherReport};
pub use settings::{Units, WeatherService, WeatherSettings};

/// Maximum length of a location, in characters.
const MAX_LOCATION_CHARS: usize = 200;

/// The tool `get_weather`. Arguments: `{location, units = "celsius"}`. Result: text for the model,
/// `data = {location, temperature, units, conditions, humidity, wind_speed, wind_speed_units}`, and
/// the metadata `source` and, from a real service, `latitude`, `longitude` and `observed_at`.
///
/// A location is a name, optionally made unambiguous by further names after commas
/// (`Springfield, Illinois`), or `latitude,longitude`. `humidity` is in percent, `wind_speed` in
/// km/h.
///
/// ```
/// use pillion_builtins::{GetWeather, WeatherSettings};
/// use pillion_core::tool::Tool;
/// let tool = GetWeather::new(&WeatherSettings::default());
/// assert_eq!(tool.definition().name().as_str(), "get_weather");
/// ```
#[derive(Debug)]
pub struct GetWeather {
    definition: ToolDefinition,
    units: Units,
    timeout: Duration,
    source: WeatherSource,
}

#[derive(Debug)]
enum WeatherSource {
    OpenMeteo(OpenMeteo),
    OpenWeatherMap(OpenWeatherMap),
    Mock,
    NotConfigured,
}

/// The error of a call while no service is configured.
const NOT_CONFIGURED_MESSAGE: &str = "get_weather is not configured: set a provider (open-meteo, \
     openweathermap) in [tools.get_weather]";

impl GetWeather {
    /// Creates the tool with these settings. Does no I/O.
    #[must_use]
    pub fn new(settings: &WeatherSettings) -> Self {
        Self {
            definition: definition(&settings.service, settings.units),
            units: settings.units,
            timeout: settings.timeout,
            source: match &settings.service {
                WeatherService::OpenMeteo { api_key } => {
                    WeatherSource::OpenMeteo(OpenMeteo::new(settings, api_key.clone()))
                }
                WeatherService::OpenWeatherMap { api_key } => {
                    WeatherSource::OpenWeatherMap(OpenWeatherMap::new(settings, api_key.clone()))
                }
                WeatherService::Mock => WeatherSource::Mock,
                WeatherService::Unset => WeatherSource::NotConfigured,
            },
        }
    }

    async fn run(&self, arguments: &JsonObject) -> Result<ToolOutput, ToolFailure> {
        let location = arguments::text(arguments, "location").trim();
        arguments::check_text("location", location, MAX_LOCATION_CHARS)?;
        let units = Units::from_name(arguments::text(arguments, "units"));
        let report = self.fetch_report(location).await?;
        Ok(report.into_output(units.unwrap_or(self.units)))
    }

    async fn fetch_report(&self, location: &str) -> Result<WeatherReport, ToolFailure> {
        let requested_location = RequestedLocation::parse(location);
        match &self.source {
            WeatherSource::OpenMeteo(source) => {
                provider::request_report(source, &requested_location, self.timeout).await
            }
            WeatherSource::OpenWeatherMap(source) => {
                provider::request_report(source, &requested_location, self.timeout).await
            }
            WeatherSource::Mock => Ok(mock::create_report(location).await),
            WeatherSource::NotConfigured => Err(ToolFailure::new(
                ErrorCode::Unavailable,
                NOT_CONFIGURED_MESSAGE,
            )),
        }
    }
}

/// Returns the definition. The description names the service, so that a cached result of one
/// service is not used for another.
fn definition(service: &WeatherService, units: Units) -> ToolDefinition {
    let location = ToolParameter::new("location", ParameterType::String).describe(
        "City name, with region or country where the name alone is not clear \
         (e.g., 'Tokyo', 'Springfield, Illinois'), or 'latitude,longitude'",
    );
    let units = ToolParameter::new("units", ParameterType::String)
        .describe("Units of the temperature: 'celsius' or 'fahrenheit'")
        .default_value(json!(units.as_str()))
        .one_of(Units::ALL.map(|units| json!(units.as_str())));
    let source_suffix = match service {
        WeatherService::OpenMeteo { .. } => ", from Open-Meteo",
        WeatherService::OpenWeatherMap { .. } => ", from OpenWeatherMap",
        WeatherService::Mock => ", invented for development",
        WeatherService::Unset => "",
    };
    let description = format!("Get the current weather of a location{source_suffix}.");
    ToolDefinition::builder("get_weather", description)
        .category("information")
        .parameters([location, units])
        .build()
        .expect("the definition is constant but for a default, and a test builds it")
}

impl Tool for GetWeather {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    /// Returns whether a weather service is configured.
    fn is_offered(&self) -> bool {
        !matches!(self.source, WeatherSource::NotConfigured)
    }

    fn call(self: Arc<Self>, arguments: JsonObject, _context: CallContext) -> ToolFuture {
        Box::pin(async move { self.run(&arguments).await })
    }
}
