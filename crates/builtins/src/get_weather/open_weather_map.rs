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
use crate::plain_text::plain_text;
use crate::service::{Fault, Service, ServiceResponse, base_url};

/// The maximum number of places of one request.
const MAX_LOCATION_COUNT: &str = "5";

/// Maximum length of the name of a place or of its weather in results, in characters.
const MAX_NAME_LEN: usize = 100;

const KMH_PER_MPS: f64 = 3.6;

#[derive(Debug)]
pub(super) struct OpenWeatherMap {
    service: Service,
    base: Url,
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
    main: Main,
    wind: Option<Wind>,
    /// The time of observation, in seconds since 1970.
    dt: Option<i64>,
}

#[derive(Deserialize)]
struct WeatherCondition {
    description: String,
}

#[derive(Deserialize)]
struct Main {
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
            service: Service::new(
                Self::NAME,
                "OPENWEATHER_API_KEY, or api_key_env of [tools.get_weather], or the vault",
                settings.egress.clone(),
                settings.timeout,
                [api_key.clone()],
            ),
            base: base_url(settings.base_url.as_ref(), "https://api.openweathermap.org"),
            api_key,
        }
    }

    async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
        invalid: &str,
    ) -> Result<T, ToolFailure> {
        let mut query = query.to_vec();
        query.push(("appid", self.api_key.expose_secret()));
        let headers = HeaderMap::new();
        let response = self.service.get(&self.base, path, &query, headers).await?;
        self.service.parse(&response, fault(&response), invalid)
    }
}

impl WeatherProvider for OpenWeatherMap {
    const NAME: &'static str = "OpenWeatherMap";
    const SOURCE: &'static str = "openweathermap";

    /// Finds places. OpenWeatherMap matches the areas itself, by codes, and only the order of the
    /// results shows which place is most likely, so the first place is used.
    async fn find_locations<'a>(
        &self,
        name: &str,
        within: &'a [String],
    ) -> Result<(Vec<Location>, &'a [String]), ToolFailure> {
        let areas = within
            .iter()
            .map(|area| state_codes::country(area).unwrap_or(area));
        let parts: Vec<&str> = std::iter::once(name).chain(areas).collect();
        let joined = parts.join(",");
        let query = [("q", joined.as_str()), ("limit", MAX_LOCATION_COUNT)];
        let invalid = "an invalid list of places";
        let found: Vec<OpenWeatherMapLocation> =
            self.get("/geo/1.0/direct", &query, invalid).await?;
        Ok((found.into_iter().map(Location::from).collect(), &[]))
    }

    async fn current(&self, location: &Location) -> Result<(Weather, Option<i64>), ToolFailure> {
        let (latitude, longitude) = (
            location.latitude.to_string(),
            location.longitude.to_string(),
        );
        let query = [
            ("lat", latitude.as_str()),
            ("lon", longitude.as_str()),
            ("units", "metric"),
        ];
        let invalid = "invalid weather data";
        let current: CurrentWeather = self.get("/data/2.5/weather", &query, invalid).await?;
        let wind = current.wind.and_then(|wind| wind.speed);
        let weather = Weather {
            celsius: current.main.temp,
            conditions: capitalized(&current.weather),
            humidity: current.main.humidity,
            wind_kmh: wind.map(|speed| speed * KMH_PER_MPS),
        };
        Ok((weather, current.dt))
    }
}

/// Reads an error of OpenWeatherMap: `{"cod": 401, "message": "..."}`. `cod` is a number or text,
/// and may differ from the HTTP status.
fn fault(response: &ServiceResponse) -> Option<Fault> {
    let message = response.text("/message");
    let code = match response.body.get("cod") {
        Some(Value::Number(code)) => code.as_u64(),
        Some(Value::String(code)) => code.parse().ok(),
        _ => None,
    };
    match code.filter(|_| response.status.is_success()) {
        None | Some(200) => response.fault(message),
        Some(401 | 403) => Some(Fault::WrongKey),
        Some(429) => Some(Fault::Limit(response.retry_after())),
        Some(code @ (400 | 404)) => Some(Fault::Input(format!("{message} ({code})"))),
        Some(code) => Some(Fault::Status(
            u16::try_from(code).unwrap_or(0),
            message.into(),
        )),
    }
}

impl From<OpenWeatherMapLocation> for Location {
    fn from(found: OpenWeatherMapLocation) -> Self {
        let areas = found.state.into_iter().chain([found.country.clone()]);
        Self {
            name: plain_text(&found.name, MAX_NAME_LEN),
            areas: areas.map(|area| plain_text(&area, MAX_NAME_LEN)).collect(),
            country_code: found.country,
            latitude: found.lat,
            longitude: found.lon,
            ..Self::default()
        }
    }
}

/// Returns the first description of the weather, such as `moderate rain`, with a capital letter.
fn capitalized(weather: &[WeatherCondition]) -> String {
    let description = weather.first().map(|weather| weather.description.as_str());
    let text = plain_text(description.unwrap_or("unknown"), MAX_NAME_LEN);
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => "Unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d6_the_base_url_has_the_documented_default() {
        let service = OpenWeatherMap::new(&WeatherSettings::default(), "a key".into());
        assert_eq!(service.base.as_str(), "https://api.openweathermap.org/");
    }
}
