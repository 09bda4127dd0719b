use std::time::Duration;

use pillion_egress::EgressPolicy;
use secrecy::SecretString;
use serde::Deserialize;
use url::Url;

/// The settings of the tool [`GetWeather`](super::GetWeather).
#[derive(Debug, Clone)]
pub struct WeatherSettings {
    /// The service from which the weather comes.
    pub service: WeatherService,
    /// The service's base URL. Default: the service's public URL.
    pub base_url: Option<Url>,
    /// The base URL of Open-Meteo's geocoding API. Default: `base_url`, else the public URL.
    pub geocoding_url: Option<Url>,
    /// The units in the result of a call that names no units. Default: Celsius.
    pub units: Units,
    /// Timeout of a call. Default: 10 s.
    pub timeout: Duration,
    /// The egress policy for requests.
    pub egress: EgressPolicy,
}

/// The default service is Open-Meteo, without an API key.
impl Default for WeatherSettings {
    fn default() -> Self {
        Self {
            service: WeatherService::OpenMeteo { api_key: None },
            base_url: None,
            geocoding_url: None,
            units: Units::Celsius,
            timeout: Duration::from_secs(10),
            egress: EgressPolicy::default(),
        }
    }
}

impl WeatherSettings {
    /// Sets the API key, if the service uses one.
    #[must_use]
    pub fn with_key(mut self, key: SecretString) -> Self {
        match &mut self.service {
            WeatherService::OpenMeteo { api_key } => *api_key = Some(key),
            WeatherService::OpenWeatherMap { api_key } => *api_key = key,
            WeatherService::Mock | WeatherService::Unset => {}
        }
        self
    }
}

/// A service of weather data.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum WeatherService {
    /// Open-Meteo. Without an API key, the free service for non-commercial use; with an API key,
    /// the service for paying customers.
    OpenMeteo {
        /// The API key of a paying customer; `None` for the free service.
        api_key: Option<SecretString>,
    },
    /// OpenWeatherMap, which needs an API key.
    OpenWeatherMap {
        /// The API key, `OPENWEATHER_API_KEY`.
        api_key: SecretString,
    },
    /// Mock weather that never changes, for development and tests.
    Mock,
    /// No service is configured, so the tool is not offered, and a call of the tool fails with an
    /// error that names the setting.
    Unset,
}

/// The units of a temperature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Units {
    /// Temperatures are in degrees Celsius.
    #[default]
    Celsius,
    /// Temperatures are in degrees Fahrenheit.
    Fahrenheit,
}

impl Units {
    /// All units of a temperature, the default first.
    pub const ALL: [Self; 2] = [Self::Celsius, Self::Fahrenheit];

    /// Returns the name of the units in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Celsius => "celsius",
            Self::Fahrenheit => "fahrenheit",
        }
    }

    /// Returns the units whose name in JSON is `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|units| units.as_str() == name)
    }
}
