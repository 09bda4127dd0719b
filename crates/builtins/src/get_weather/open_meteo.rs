//! Open-Meteo: <https://open-meteo.com/en/docs> and its geocoding API.

use http::HeaderMap;
use pillion_core::tool::ToolFailure;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::location::Location;
use super::provider::WeatherProvider;
use super::{Weather, WeatherSettings};
use crate::plain_text::plain_text;
use crate::service::{Fault, Service, base_url};

/// The number of places to request. If the location names areas, the maximum of one request is used
/// instead, because the intended place may be small and thus far down in the list.
const DEFAULT_LOCATION_COUNT: &str = "10";
const MAX_LOCATION_COUNT: &str = "100";

/// Maximum length of a place's name in results, in characters.
const MAX_NAME_LEN: usize = 100;

#[derive(Debug)]
pub(super) struct OpenMeteo {
    service: Service,
    forecast: Url,
    geocoding: Url,
    api_key: Option<SecretString>,
}

#[derive(Deserialize)]
struct OpenMeteoLocations {
    #[serde(default)]
    results: Vec<OpenMeteoLocation>,
}

#[derive(Deserialize)]
struct OpenMeteoLocation {
    name: String,
    latitude: f64,
    longitude: f64,
    #[serde(default)]
    feature_code: String,
    #[serde(default)]
    country_code: String,
    country: Option<String>,
    admin1: Option<String>,
    admin2: Option<String>,
    admin3: Option<String>,
    admin4: Option<String>,
    population: Option<u64>,
}

#[derive(Deserialize)]
struct OpenMeteoForecast {
    current: CurrentConditions,
}

#[derive(Deserialize)]
struct CurrentConditions {
    /// The time of observation, in seconds since 1970.
    time: Option<i64>,
    temperature_2m: f64,
    relative_humidity_2m: Option<f64>,
    weather_code: Option<u8>,
    /// The wind speed, in km/h.
    wind_speed_10m: Option<f64>,
}

impl OpenMeteo {
    pub(super) fn new(settings: &WeatherSettings, api_key: Option<SecretString>) -> Self {
        // Customers with an API key use separate hosts.
        let customer = if api_key.is_some() { "customer-" } else { "" };
        let public = |host: &str| format!("https://{customer}{host}.open-meteo.com");
        let forecast = settings.base_url.as_ref();
        let geocoding = settings.geocoding_url.as_ref().or(forecast);
        let hint = "api_key_env of [tools.get_weather]";
        Self {
            service: Service::new(
                Self::NAME,
                if api_key.is_some() { hint } else { "" },
                settings.egress.clone(),
                settings.timeout,
                api_key.clone(),
            ),
            forecast: base_url(forecast, &public("api")),
            geocoding: base_url(geocoding, &public("geocoding-api")),
            api_key,
        }
    }

    async fn get<T: DeserializeOwned>(
        &self,
        base: &Url,
        path: &str,
        query: &[(&str, &str)],
        invalid: &str,
    ) -> Result<T, ToolFailure> {
        let mut query = query.to_vec();
        if let Some(key) = &self.api_key {
            query.push(("apikey", key.expose_secret()));
        }
        let headers = HeaderMap::new();
        let response = self.service.get(base, path, &query, headers).await?;
        // Open-Meteo reports errors as `{"error": true, "reason": "..."}`, with any status.
        let reason = response.text("/reason");
        let is_error = response
            .body
            .get("error")
            .and_then(serde_json::Value::as_bool);
        let fault = match (response.status.as_u16(), is_error) {
            (200 | 400, Some(true)) => Some(Fault::Input(reason.to_owned())),
            _ => response.fault(reason),
        };
        self.service.parse(&response, fault, invalid)
    }
}

impl WeatherProvider for OpenMeteo {
    const NAME: &'static str = "Open-Meteo";
    const SOURCE: &'static str = "open-meteo";

    async fn find_locations<'a>(
        &self,
        name: &str,
        within: &'a [String],
    ) -> Result<(Vec<Location>, &'a [String]), ToolFailure> {
        let count = if within.is_empty() {
            DEFAULT_LOCATION_COUNT
        } else {
            MAX_LOCATION_COUNT
        };
        let query = [
            ("name", name),
            ("count", count),
            ("language", "en"),
            ("format", "json"),
        ];
        let invalid = "an invalid list of places";
        let found = self.get(&self.geocoding, "/v1/search", &query, invalid);
        let OpenMeteoLocations { results } = found.await?;
        Ok((results.into_iter().map(Location::from).collect(), within))
    }

    async fn current(&self, location: &Location) -> Result<(Weather, Option<i64>), ToolFailure> {
        let (latitude, longitude) = (
            location.latitude.to_string(),
            location.longitude.to_string(),
        );
        let variables = "temperature_2m,relative_humidity_2m,weather_code,wind_speed_10m";
        let query = [
            ("latitude", latitude.as_str()),
            ("longitude", longitude.as_str()),
            ("current", variables),
            ("timeformat", "unixtime"),
        ];
        let invalid = "invalid weather data";
        let forecast = self.get(&self.forecast, "/v1/forecast", &query, invalid);
        let OpenMeteoForecast { current } = forecast.await?;
        let weather = Weather {
            celsius: current.temperature_2m,
            conditions: conditions(current.weather_code).to_owned(),
            humidity: current.relative_humidity_2m,
            wind_kmh: current.wind_speed_10m,
        };
        Ok((weather, current.time))
    }
}

impl From<OpenMeteoLocation> for Location {
    fn from(found: OpenMeteoLocation) -> Self {
        let areas = [
            found.admin1,
            found.admin2,
            found.admin3,
            found.admin4,
            found.country,
        ];
        Self {
            name: plain_text(&found.name, MAX_NAME_LEN),
            areas: areas
                .into_iter()
                .flatten()
                .map(|area| plain_text(&area, MAX_NAME_LEN))
                .collect(),
            country_code: found.country_code,
            latitude: found.latitude,
            longitude: found.longitude,
            inhabitants: Some(found.population.unwrap_or(0)),
            is_settlement: found.feature_code.starts_with("PPL"),
        }
    }
}

/// Returns the meaning of a WMO weather code (table 4677), for the codes that Open-Meteo uses.
fn conditions(code: Option<u8>) -> &'static str {
    match code {
        Some(0) => "Clear sky",
        Some(1) => "Mainly clear",
        Some(2) => "Partly cloudy",
        Some(3) => "Overcast",
        Some(45) => "Fog",
        Some(48) => "Rime fog",
        Some(51) => "Light drizzle",
        Some(53) => "Drizzle",
        Some(55) => "Dense drizzle",
        Some(56) => "Light freezing drizzle",
        Some(57) => "Freezing drizzle",
        Some(61) => "Light rain",
        Some(63) => "Rain",
        Some(65) => "Heavy rain",
        Some(66) => "Light freezing rain",
        Some(67) => "Freezing rain",
        Some(71) => "Light snow",
        Some(73) => "Snow",
        Some(75) => "Heavy snow",
        Some(77) => "Snow grains",
        Some(80) => "Light rain showers",
        Some(81) => "Rain showers",
        Some(82) => "Violent rain showers",
        Some(85) => "Light snow showers",
        Some(86) => "Heavy snow showers",
        Some(95) => "Thunderstorm",
        Some(96 | 99) => "Thunderstorm with hail",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d6_the_base_url_has_the_documented_default() {
        let urls = |key: Option<&str>| {
            let service = OpenMeteo::new(&WeatherSettings::default(), key.map(SecretString::from));
            [service.forecast, service.geocoding].map(String::from)
        };
        let public = [
            "https://api.open-meteo.com/",
            "https://geocoding-api.open-meteo.com/",
        ];
        assert_eq!(urls(None), public);
        let customer = [
            "https://customer-api.open-meteo.com/",
            "https://customer-geocoding-api.open-meteo.com/",
        ];
        assert_eq!(urls(Some("a key")), customer);
    }
}
