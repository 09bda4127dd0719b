use std::time::Duration;

use pillion_core::egress::EgressPolicy;
use secrecy::SecretString;
use url::Url;

/// How the tool [`GetWeather`](super::GetWeather) works.
#[derive(Debug, Clone)]
pub struct WeatherSettings {
    /// Who is asked.
    pub provider: WeatherProvider,
    /// Where that is, in place of its public address.
    pub base_url: Option<Url>,
    /// Where Open-Meteo's look-up of places is. Default `base_url`, else its public address.
    pub geocoding_url: Option<Url>,
    /// The units of a call that names none. Default celsius.
    pub units: Units,
    /// How long a call may take. Default 10 s (N1).
    pub timeout: Duration,
    /// Where requests may go.
    pub egress: EgressPolicy,
}

/// Open-Meteo without a key.
impl Default for WeatherSettings {
    fn default() -> Self {
        Self {
            provider: WeatherProvider::OpenMeteo { api_key: None },
            base_url: None,
            geocoding_url: None,
            units: Units::Celsius,
            timeout: Duration::from_secs(10),
            egress: EgressPolicy::default(),
        }
    }
}

impl WeatherSettings {
    /// The same with this key, where the provider wants one.
    #[must_use]
    pub fn with_key(mut self, key: SecretString) -> Self {
        match &mut self.provider {
            WeatherProvider::OpenMeteo { api_key } => *api_key = Some(key),
            WeatherProvider::OpenWeatherMap { api_key } => *api_key = key,
            WeatherProvider::Mock | WeatherProvider::Unset => {}
        }
        self
    }
}

/// Who knows the weather.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum WeatherProvider {
    /// Open-Meteo, free of charge for uses that are not commercial; with a key its service
    /// for customers.
    OpenMeteo {
        /// The customer's key.
        api_key: Option<SecretString>,
    },
    /// OpenWeatherMap.
    OpenWeatherMap {
        /// Its key.
        api_key: SecretString,
    },
    /// Nobody: invented weather that is always the same, for development and tests.
    Mock,
    /// No provider is configured: the tool is not offered, and a call of the tool fails with an
    /// error that names the setting.
    Unset,
}

/// The units of a temperature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Units {
    /// Degrees Celsius.
    #[default]
    Celsius,
    /// Degrees Fahrenheit.
    Fahrenheit,
}

impl Units {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Celsius, Self::Fahrenheit];

    /// The name as it stands in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Celsius => "celsius",
            Self::Fahrenheit => "fahrenheit",
        }
    }

    /// The units of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|units| units.as_str() == name)
    }
}
