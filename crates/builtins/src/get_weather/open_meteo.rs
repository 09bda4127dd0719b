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
use crate::plain_text::to_plain_text;
use crate::service::{ServiceClient, ServiceFault, base_url};

/// Number of places to request for a location without a region or country. For a location with a
/// region or country (`Springfield, Illinois`), the API's maximum is requested instead, because the
/// place may rank low among all places with the same name.
const DEFAULT_LOCATION_COUNT: &str = "10";
const MAX_LOCATION_COUNT: &str = "100";

/// Maximum length of a place's name in results, in characters.
const MAX_NAME_CHARS: usize = 100;

#[derive(Debug)]
pub(super) struct OpenMeteo {
    service: ServiceClient,
    forecast_url: Url,
    geocoding_url: Url,
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
        let host_prefix = if api_key.is_some() { "customer-" } else { "" };
        let public_url = |host: &str| format!("https://{host_prefix}{host}.open-meteo.com");
        let forecast_url = settings.base_url.as_ref();
        let geocoding_url = settings.geocoding_url.as_ref().or(forecast_url);
        let key_hint = "api_key_env of [tools.get_weather]";
        Self {
            service: ServiceClient::new(
                Self::NAME,
                if api_key.is_some() { key_hint } else { "" },
                settings.egress.clone(),
                settings.timeout,
                api_key.clone(),
            ),
            forecast_url: base_url(forecast_url, &public_url("api")),
            geocoding_url: base_url(geocoding_url, &public_url("geocoding-api")),
            api_key,
        }
    }

    async fn get<T: DeserializeOwned>(
        &self,
        base: &Url,
        path: &str,
        query: &[(&str, &str)],
        invalid_description: &str,
    ) -> Result<T, ToolFailure> {
        let mut parameters = query.to_vec();
        if let Some(key) = &self.api_key {
            parameters.push(("apikey", key.expose_secret()));
        }
        let headers = HeaderMap::new();
        let response = self.service.get(base, path, &parameters, headers).await?;
        // Open-Meteo reports errors as `{"error": true, "reason": "..."}`, with any status.
        let reason = response.text("/reason");
        let error_flag = response
            .body
            .get("error")
            .and_then(serde_json::Value::as_bool);
        let fault = match (response.status.as_u16(), error_flag) {
            (200 | 400, Some(true)) => Some(ServiceFault::InvalidInput(reason.to_owned())),
            _ => response.find_fault(reason),
        };
        self.service.parse(&response, fault, invalid_description)
    }
}

impl WeatherProvider for OpenMeteo {
    const NAME: &'static str = "Open-Meteo";
    const SOURCE: &'static str = "open-meteo";

    async fn find_locations<'a>(
        &self,
        name: &str,
        areas: &'a [String],
    ) -> Result<(Vec<Location>, &'a [String]), ToolFailure> {
        let count = if areas.is_empty() {
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
        let invalid_description = "an invalid list of places";
        let locations = self.get(
            &self.geocoding_url,
            "/v1/search",
            &query,
            invalid_description,
        );
        let OpenMeteoLocations { results } = locations.await?;
        Ok((results.into_iter().map(Location::from).collect(), areas))
    }

    async fn fetch_current_weather(
        &self,
        location: &Location,
    ) -> Result<(Weather, Option<i64>), ToolFailure> {
        let latitude = location.latitude.to_string();
        let longitude = location.longitude.to_string();
        let requested_variables = "temperature_2m,relative_humidity_2m,weather_code,wind_speed_10m";
        let query = [
            ("latitude", latitude.as_str()),
            ("longitude", longitude.as_str()),
            ("current", requested_variables),
            ("timeformat", "unixtime"),
        ];
        let invalid_description = "invalid weather data";
        let forecast = self.get(
            &self.forecast_url,
            "/v1/forecast",
            &query,
            invalid_description,
        );
        let OpenMeteoForecast { current } = forecast.await?;
        let weather = Weather {
            celsius: current.temperature_2m,
            conditions: describe_weather_code(current.weather_code).to_owned(),
            humidity: current.relative_humidity_2m,
            wind_kmh: current.wind_speed_10m,
        };
        Ok((weather, current.time))
    }
}

impl From<OpenMeteoLocation> for Location {
    fn from(location: OpenMeteoLocation) -> Self {
        let areas = [
            location.admin1,
            location.admin2,
            location.admin3,
            location.admin4,
            location.country,
        ];
        Self {
            name: to_plain_text(&location.name, MAX_NAME_CHARS),
            areas: areas
                .into_iter()
                .flatten()
                .map(|area| to_plain_text(&area, MAX_NAME_CHARS))
                .collect(),
            country_code: location.country_code,
            latitude: location.latitude,
            longitude: location.longitude,
            inhabitants: Some(location.population.unwrap_or(0)),
            is_settlement: location.feature_code.starts_with("PPL"),
        }
    }
}

/// Returns the meaning of a WMO weather code (table 4677), for the codes that Open-Meteo uses.
fn describe_weather_code(code: Option<u8>) -> &'static str {
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
            let provider = OpenMeteo::new(&WeatherSettings::default(), key.map(SecretString::from));
            [provider.forecast_url, provider.geocoding_url].map(String::from)
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
