//! OpenWeatherMap: <https://openweathermap.org/current> and its geocoding API.

use http::HeaderMap;
use pillion_core::tool::ToolFailure;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use super::location::Location;
use super::provider::WeatherProvider;
use super::{Weather, WeatherSettings, state_codes};
use crate::plain_text::to_plain_text;
use crate::service::{ServiceClient, ServiceFault, ServiceResponse, base_url};

/// The maximum number of places that one request of the geocoding API returns.
const MAX_LOCATION_COUNT: &str = "5";

/// Maximum length of the name of a place or of its weather in results, in characters.
const MAX_NAME_CHARS: usize = 100;

const KMH_PER_MPS: f64 = 3.6;

#[derive(Debug)]
pub(super) struct OpenWeatherMap {
    service: ServiceClient,
    base_url: Url,
    api_key: SecretString,
}

#[derive(Deserialize)]
struct OpenWeatherMapLocation {
    name: String,
    lat: f64,
    lon: f64,
    #[serde(default)]
    country: String,
    state: Option<String>,
}

#[derive(Deserialize)]
struct CurrentWeather {
    weather: Vec<WeatherCondition>,
    main: MainMeasurements,
    wind: Option<Wind>,
    /// The time of observation, in seconds since 1970.
    dt: Option<i64>,
}

#[derive(Deserialize)]
struct WeatherCondition {
    description: String,
}

#[derive(Deserialize)]
struct MainMeasurements {
    temp: f64,
    humidity: Option<f64>,
}

#[derive(Deserialize)]
struct Wind {
    /// The wind speed, in meters per second.
    speed: Option<f64>,
}

impl OpenWeatherMap {
    pub(super) fn new(settings: &WeatherSettings, api_key: SecretString) -> Self {
        Self {
            service: ServiceClient::new(
                Self::NAME,
                "OPENWEATHER_API_KEY, or api_key_env of [tools.get_weather], or the vault",
                settings.egress.clone(),
                settings.timeout,
                [api_key.clone()],
            ),
            base_url: base_url(settings.base_url.as_ref(), "https://api.openweathermap.org"),
            api_key,
        }
    }

    async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
        invalid_description: &str,
    ) -> Result<T, ToolFailure> {
        let mut parameters = query.to_vec();
        parameters.push(("appid", self.api_key.expose_secret()));
        let headers = HeaderMap::new();
        let response = self
            .service
            .get(&self.base_url, path, &parameters, headers)
            .await?;
        self.service
            .parse(&response, read_fault(&response), invalid_description)
    }
}

impl WeatherProvider for OpenWeatherMap {
    const NAME: &'static str = "OpenWeatherMap";
    const SOURCE: &'static str = "openweathermap";

    /// Finds places. OpenWeatherMap itself compares the region and the country, so the caller need
    /// not compare any area. The places have no number of inhabitants: only the order of the
    /// results shows which place is most likely.
    async fn find_locations<'a>(
        &self,
        name: &str,
        areas: &'a [String],
    ) -> Result<(Vec<Location>, &'a [String]), ToolFailure> {
        let area_codes = areas
            .iter()
            .map(|area| state_codes::find_country(area).unwrap_or(area));
        let query_parts: Vec<&str> = std::iter::once(name).chain(area_codes).collect();
        let location_query = query_parts.join(",");
        let query = [
            ("q", location_query.as_str()),
            ("limit", MAX_LOCATION_COUNT),
        ];
        let invalid_description = "an invalid list of places";
        let locations: Vec<OpenWeatherMapLocation> = self
            .get("/geo/1.0/direct", &query, invalid_description)
            .await?;
        Ok((locations.into_iter().map(Location::from).collect(), &[]))
    }

    async fn fetch_current_weather(
        &self,
        location: &Location,
    ) -> Result<(Weather, Option<i64>), ToolFailure> {
        let latitude = location.latitude.to_string();
        let longitude = location.longitude.to_string();
        let query = [
            ("lat", latitude.as_str()),
            ("lon", longitude.as_str()),
            ("units", "metric"),
        ];
        let invalid_description = "invalid weather data";
        let current: CurrentWeather = self
            .get("/data/2.5/weather", &query, invalid_description)
            .await?;
        let wind_speed = current.wind.and_then(|wind| wind.speed);
        let weather = Weather {
            celsius: current.main.temp,
            conditions: capitalize_description(&current.weather),
            humidity: current.main.humidity,
            wind_kmh: wind_speed.map(|speed| speed * KMH_PER_MPS),
        };
        Ok((weather, current.dt))
    }
}

/// Reads an error of OpenWeatherMap: `{"cod": 401, "message": "..."}`. `cod` is a number or text,
/// and may differ from the HTTP status.
fn read_fault(response: &ServiceResponse) -> Option<ServiceFault> {
    let message = response.text("/message");
    let code = match response.body.get("cod") {
        Some(Value::Number(code)) => code.as_u64(),
        Some(Value::String(code)) => code.parse().ok(),
        _ => None,
    };
    match code.filter(|_| response.status.is_success()) {
        None | Some(200) => response.find_fault(message),
        Some(401 | 403) => Some(ServiceFault::RejectedKey),
        Some(429) => Some(ServiceFault::RateLimit(response.retry_after())),
        Some(code @ (400 | 404)) => Some(ServiceFault::InvalidInput(format!("{message} ({code})"))),
        Some(code) => Some(ServiceFault::ErrorStatus(
            u16::try_from(code).unwrap_or(0),
            message.into(),
        )),
    }
}

impl From<OpenWeatherMapLocation> for Location {
    fn from(location: OpenWeatherMapLocation) -> Self {
        let areas = location.state.into_iter().chain([location.country.clone()]);
        Self {
            name: to_plain_text(&location.name, MAX_NAME_CHARS),
            areas: areas
                .map(|area| to_plain_text(&area, MAX_NAME_CHARS))
                .collect(),
            country_code: location.country,
            latitude: location.lat,
            longitude: location.lon,
            ..Self::default()
        }
    }
}

/// Returns the first description of the weather, such as `moderate rain`, with a capital letter.
fn capitalize_description(weather_conditions: &[WeatherCondition]) -> String {
    let description = weather_conditions
        .first()
        .map(|condition| condition.description.as_str());
    let text = to_plain_text(description.unwrap_or("unknown"), MAX_NAME_CHARS);
    let mut chars = text.chars();
    match chars.next() {
        Some(first_char) => first_char.to_uppercase().chain(chars).collect(),
        None => "Unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d6_the_base_url_has_the_documented_default() {
        let provider = OpenWeatherMap::new(&WeatherSettings::default(), "a key".into());
        assert_eq!(
            provider.base_url.as_str(),
            "https://api.openweathermap.org/"
        );
    }
}
