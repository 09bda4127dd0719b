//! The settings of the built-in network tools, and of `get_time`.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ext_php_rs::types::Zval;
use pillion_builtins::get_weather::{Units, WeatherService};
use pillion_builtins::web_search::SearchService;
use pillion_builtins::{GetTime, GetWeather, SearchSettings, WeatherSettings, WebSearch};
use pillion_core::tool::Tool;
use pillion_egress::EgressPolicy;
use secrecy::SecretString;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use url::Url;

use crate::duration::seconds;
use crate::exception;
use crate::json::to_value_as;
use crate::mcp::without_value;
use crate::zend::Failure;

/// Default timeout of a call of a network tool.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

const TIME: &str = "get_time";
const WEATHER: &str = "get_weather";
const SEARCH: &str = "web_search";

/// The settings of a network tool. The key is either given directly, or in an environment variable
/// that the settings name.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct ServiceSettings {
    provider: Option<String>,
    api_key: Option<String>,
    api_key_env: Option<String>,
    base_url: Option<String>,
    geocoding_url: Option<String>,
    units: Option<String>,
    cx: Option<String>,
    timeout: Option<f64>,
    egress: EgressPolicy,
}

/// The settings of `get_time`.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct TimeSettings {
    timezone: Option<String>,
}

/// Creates the tools that the `$services` array names, also those with empty settings.
///
/// # Errors
/// An `InvalidInputException` that names the invalid key.
pub(super) fn read(services: &Zval) -> Result<Vec<Arc<dyn Tool>>, Failure> {
    let services = match to_value_as("argument $services", services)? {
        Value::Object(services) => services,
        Value::Array(list) if !list.is_empty() => {
            let message = "$services must have the names of services as keys, and their settings, \
                which may be empty, as values";
            return Err(exception::invalid_input(message));
        }
        _ => return Ok(Vec::new()),
    };
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    for (name, settings) in services {
        let settings = match settings {
            Value::Array(list) if list.is_empty() => Value::Object(Map::new()),
            settings => settings,
        };
        let reader = SettingsReader { tool: &name };
        if !settings.is_object() {
            let message = format!("The settings of '{name}' must be an array with names as keys");
            return Err(exception::invalid_input(message));
        }
        match name.as_str() {
            TIME => tools.push(Arc::new(reader.time(&reader.read(settings)?)?)),
            WEATHER => {
                let settings = reader.weather(reader.read(settings)?)?;
                tools.push(Arc::new(GetWeather::new(&settings)));
            }
            SEARCH => {
                let settings = reader.search(reader.read(settings)?)?;
                tools.push(Arc::new(WebSearch::new(&settings)));
            }
            _ => {
                let message = format!("There is no service '{name}': {TIME}, {WEATHER}, {SEARCH}");
                return Err(exception::invalid_input(message));
            }
        }
    }
    Ok(tools)
}

struct SettingsReader<'a> {
    tool: &'a str,
}

impl SettingsReader<'_> {
    fn read<T: DeserializeOwned>(&self, settings: Value) -> Result<T, Failure> {
        let read = serde_path_to_error::deserialize(settings);
        read.map_err(|error| {
            let path = error.path().to_string();
            let why = without_value(path == "api_key", &error.inner().to_string());
            self.invalid(&path, &why)
        })
    }

    fn invalid(&self, key: &str, why: &str) -> Failure {
        let tool = self.tool;
        exception::invalid_input(format!("Invalid setting '{tool}.{key}': {why}"))
    }

    fn time(&self, settings: &TimeSettings) -> Result<GetTime, Failure> {
        let zone = settings.timezone.as_deref().unwrap_or("UTC");
        let tool = GetTime::new(zone, SystemTime::now);
        tool.map_err(|error| self.invalid("timezone", &error.to_string()))
    }

    fn weather(&self, settings: ServiceSettings) -> Result<WeatherSettings, Failure> {
        if settings.cx.is_some() {
            return Err(self.invalid("cx", "this setting belongs to web_search"));
        }
        let key_variable = "OPENWEATHER_API_KEY";
        let service = match settings.provider.as_deref() {
            Some("open-meteo") => WeatherService::OpenMeteo {
                api_key: self.key(&settings)?,
            },
            Some("openweathermap") => WeatherService::OpenWeatherMap {
                api_key: self.required_key(&settings, key_variable)?,
            },
            Some("mock") => WeatherService::Mock,
            Some(_) => {
                return Err(self.invalid("provider", "use open-meteo, openweathermap or mock"));
            }
            None if self.key(&settings)?.is_some() => return Err(self.missing_provider()),
            None => match secret_variable(key_variable) {
                Some(api_key) => WeatherService::OpenWeatherMap { api_key },
                None => WeatherService::OpenMeteo { api_key: None },
            },
        };
        let units = settings.units.as_deref().map(Units::from_name);
        Ok(WeatherSettings {
            service,
            base_url: self.url("base_url", settings.base_url.as_deref())?,
            geocoding_url: self.url("geocoding_url", settings.geocoding_url.as_deref())?,
            units: match units {
                Some(None) => return Err(self.invalid("units", "use celsius or fahrenheit")),
                units => units.flatten().unwrap_or_default(),
            },
            timeout: self.timeout(settings.timeout)?,
            egress: settings.egress,
        })
    }

    fn search(&self, settings: ServiceSettings) -> Result<SearchSettings, Failure> {
        let of_weather = [
            ("units", &settings.units),
            ("geocoding_url", &settings.geocoding_url),
        ];
        if let Some((key, _)) = of_weather.iter().find(|(_, value)| value.is_some()) {
            return Err(self.invalid(key, "this setting belongs to get_weather"));
        }
        let (key_variable, cx_variable) = ("GOOGLE_SEARCH_API_KEY", "GOOGLE_SEARCH_CX");
        let cx = settings.cx.clone().or_else(|| text_variable(cx_variable));
        let base_url = self.url("base_url", settings.base_url.as_deref())?;
        let service = match settings.provider.as_deref() {
            Some("google") => Some(SearchService::Google {
                api_key: self.required_key(&settings, key_variable)?,
                engine: cx.ok_or_else(|| {
                    self.invalid(
                        "cx",
                        &format!("set cx, or the environment variable {cx_variable}"),
                    )
                })?,
            }),
            Some("brave") => Some(SearchService::Brave {
                api_key: self.required_key(&settings, "BRAVE_SEARCH_API_KEY")?,
            }),
            Some("searxng") => Some(SearchService::SearXng {
                base_url: (base_url.clone()).ok_or_else(|| {
                    self.invalid("base_url", "set base_url to the URL of the SearXNG server")
                })?,
            }),
            Some("mock") => Some(SearchService::Mock),
            Some(_) => return Err(self.invalid("provider", "use google, brave, searxng or mock")),
            None if self.key(&settings)?.is_some() => return Err(self.missing_provider()),
            None => secret_variable(key_variable)
                .zip(cx)
                .map(|(api_key, engine)| SearchService::Google { api_key, engine }),
        };
        Ok(SearchSettings {
            service,
            base_url,
            timeout: self.timeout(settings.timeout)?,
            egress: settings.egress,
        })
    }

    /// Returns the service's API key from the settings, or from the environment variable that the
    /// settings name.
    fn key(&self, settings: &ServiceSettings) -> Result<Option<SecretString>, Failure> {
        match (&settings.api_key, &settings.api_key_env) {
            (Some(_), Some(_)) => Err(self.invalid("api_key", "set either api_key or api_key_env")),
            (Some(key), None) => Ok(Some(SecretString::from(key.clone()))),
            (None, Some(name)) => secret_variable(name).map(Some).ok_or_else(|| {
                self.invalid("api_key_env", &format!("the variable {name} is not set"))
            }),
            (None, None) => Ok(None),
        }
    }

    /// Returns the service's API key as [`key`](Self::key) does, or else from the provider's usual
    /// environment variable.
    fn required_key(
        &self,
        settings: &ServiceSettings,
        key_variable: &str,
    ) -> Result<SecretString, Failure> {
        let key = self
            .key(settings)?
            .or_else(|| secret_variable(key_variable));
        key.ok_or_else(|| self.invalid("provider", &format!("it needs api_key, or {key_variable}")))
    }

    fn missing_provider(&self) -> Failure {
        self.invalid(
            "api_key",
            "set provider to the service that the key belongs to",
        )
    }

    fn timeout(&self, timeout: Option<f64>) -> Result<Duration, Failure> {
        timeout.map_or(Ok(DEFAULT_TIMEOUT), |timeout| {
            seconds(&format!("{}.timeout", self.tool), timeout)
        })
    }

    fn url(&self, key: &str, url: Option<&str>) -> Result<Option<Url>, Failure> {
        let Some(url) = url else {
            return Ok(None);
        };
        let parsed = Url::parse(url).ok().filter(|url| {
            let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
            is_http && url.username().is_empty() && url.password().is_none()
        });
        parsed.map(Some).ok_or_else(|| {
            self.invalid(key, "expected an http:// or https:// URL without password")
        })
    }
}

fn secret_variable(name: &str) -> Option<SecretString> {
    text_variable(name).map(SecretString::from)
}

/// Returns the value of an environment variable, unless it is empty.
fn text_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}
