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

use crate::duration::parse_seconds;
use crate::exception;
use crate::json::to_value_as;
use crate::mcp::redact_message;
use crate::zend::{Failure, Result};

/// Default timeout of a call of a network tool.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

const GET_TIME: &str = "get_time";
const GET_WEATHER: &str = "get_weather";
const WEB_SEARCH: &str = "web_search";

/// The settings of a network tool. The settings contain the API key itself, or the name of an
/// environment variable that contains the key.
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

/// Creates the tools that the `$services` array names, including tools with empty settings.
///
/// # Errors
/// An `InvalidInputException` that names the invalid key.
pub(super) fn create_service_tools(services: &Zval) -> Result<Vec<Arc<dyn Tool>>> {
    let service_settings = match to_value_as("argument $services", services)? {
        Value::Object(service_settings) => service_settings,
        Value::Array(list) if !list.is_empty() => {
            let message = "$services must be an array with service names as keys and arrays of \
                settings as values";
            return Err(exception::invalid_input(message));
        }
        _ => return Ok(Vec::new()),
    };
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    for (name, value) in service_settings {
        let settings = match value {
            Value::Array(list) if list.is_empty() => Value::Object(Map::new()),
            value => value,
        };
        let reader = SettingsReader { tool_name: &name };
        if !settings.is_object() {
            let message = format!("The settings of '{name}' must be an array with string keys");
            return Err(exception::invalid_input(message));
        }
        match name.as_str() {
            GET_TIME => tools.push(Arc::new(
                reader.create_get_time(&reader.deserialize(settings)?)?,
            )),
            GET_WEATHER => {
                let weather_settings = reader.read_weather(reader.deserialize(settings)?)?;
                tools.push(Arc::new(GetWeather::new(&weather_settings)));
            }
            WEB_SEARCH => {
                let search_settings = reader.read_search(reader.deserialize(settings)?)?;
                tools.push(Arc::new(WebSearch::new(&search_settings)));
            }
            _ => {
                let message = format!(
                    "Unknown service '{name}': \
                     expected one of {GET_TIME}, {GET_WEATHER}, {WEB_SEARCH}"
                );
                return Err(exception::invalid_input(message));
            }
        }
    }
    Ok(tools)
}

struct SettingsReader<'a> {
    tool_name: &'a str,
}

impl SettingsReader<'_> {
    fn deserialize<T: DeserializeOwned>(&self, settings: Value) -> Result<T> {
        serde_path_to_error::deserialize(settings).map_err(|error| {
            let path = error.path().to_string();
            let reason = redact_message(path == "api_key", &error.inner().to_string());
            self.setting_error(&path, &reason)
        })
    }

    fn setting_error(&self, key: &str, reason: &str) -> Failure {
        let tool_name = self.tool_name;
        exception::invalid_input(format!("Invalid setting '{tool_name}.{key}': {reason}"))
    }

    fn create_get_time(&self, settings: &TimeSettings) -> Result<GetTime> {
        let timezone = settings.timezone.as_deref().unwrap_or("UTC");
        let tool = GetTime::new(timezone, SystemTime::now);
        tool.map_err(|error| self.setting_error("timezone", &error.to_string()))
    }

    fn read_weather(&self, settings: ServiceSettings) -> Result<WeatherSettings> {
        if settings.cx.is_some() {
            return Err(self.setting_error("cx", "the setting belongs to web_search"));
        }
        let key_variable = "OPENWEATHER_API_KEY";
        let service = match settings.provider.as_deref() {
            Some("open-meteo") => WeatherService::OpenMeteo {
                api_key: self.read_key(&settings)?,
            },
            Some("openweathermap") => WeatherService::OpenWeatherMap {
                api_key: self.require_key(&settings, key_variable)?,
            },
            Some("mock") => WeatherService::Mock,
            Some(_) => {
                return Err(
                    self.setting_error("provider", "use open-meteo, openweathermap or mock")
                );
            }
            None if self.read_key(&settings)?.is_some() => return Err(self.missing_provider()),
            None => match read_secret_variable(key_variable) {
                Some(api_key) => WeatherService::OpenWeatherMap { api_key },
                None => WeatherService::OpenMeteo { api_key: None },
            },
        };
        let units = settings.units.as_deref().map(Units::from_name);
        Ok(WeatherSettings {
            service,
            base_url: self.read_url("base_url", settings.base_url.as_deref())?,
            geocoding_url: self.read_url("geocoding_url", settings.geocoding_url.as_deref())?,
            units: match units {
                Some(None) => {
                    return Err(self.setting_error("units", "use celsius or fahrenheit"));
                }
                units => units.flatten().unwrap_or_default(),
            },
            timeout: self.read_timeout(settings.timeout)?,
            egress: settings.egress,
        })
    }

    fn read_search(&self, settings: ServiceSettings) -> Result<SearchSettings> {
        let weather_settings = [
            ("units", &settings.units),
            ("geocoding_url", &settings.geocoding_url),
        ];
        if let Some((key, _)) = weather_settings.iter().find(|(_, value)| value.is_some()) {
            return Err(self.setting_error(key, "the setting belongs to get_weather"));
        }
        let (key_variable, cx_variable) = ("GOOGLE_SEARCH_API_KEY", "GOOGLE_SEARCH_CX");
        let cx = settings
            .cx
            .clone()
            .or_else(|| read_text_variable(cx_variable));
        let base_url = self.read_url("base_url", settings.base_url.as_deref())?;
        let service = match settings.provider.as_deref() {
            Some("google") => Some(SearchService::Google {
                api_key: self.require_key(&settings, key_variable)?,
                engine: cx.ok_or_else(|| {
                    self.setting_error(
                        "cx",
                        &format!(
                            "set cx (the ID of the search engine) or the environment variable \
                             {cx_variable}"
                        ),
                    )
                })?,
            }),
            Some("brave") => Some(SearchService::Brave {
                api_key: self.require_key(&settings, "BRAVE_SEARCH_API_KEY")?,
            }),
            Some("searxng") => Some(SearchService::SearXng {
                base_url: (base_url.clone()).ok_or_else(|| {
                    self.setting_error("base_url", "set base_url to the URL of the SearXNG server")
                })?,
            }),
            Some("mock") => Some(SearchService::Mock),
            Some(_) => {
                return Err(self.setting_error("provider", "use google, brave, searxng or mock"));
            }
            None if self.read_key(&settings)?.is_some() => return Err(self.missing_provider()),
            None => read_secret_variable(key_variable)
                .zip(cx)
                .map(|(api_key, engine)| SearchService::Google { api_key, engine }),
        };
        Ok(SearchSettings {
            service,
            base_url,
            timeout: self.read_timeout(settings.timeout)?,
            egress: settings.egress,
        })
    }

    /// Returns the service's API key from the settings, or from the environment variable that the
    /// settings name.
    fn read_key(&self, settings: &ServiceSettings) -> Result<Option<SecretString>> {
        match (&settings.api_key, &settings.api_key_env) {
            (Some(_), Some(_)) => {
                Err(self.setting_error("api_key", "set either api_key or api_key_env"))
            }
            (Some(key), None) => Ok(Some(SecretString::from(key.clone()))),
            (None, Some(name)) => read_secret_variable(name).map(Some).ok_or_else(|| {
                self.setting_error(
                    "api_key_env",
                    &format!("the environment variable {name} is not set"),
                )
            }),
            (None, None) => Ok(None),
        }
    }

    /// Returns the service's API key from [`read_key`](Self::read_key), or else from the provider's
    /// usual environment variable.
    fn require_key(&self, settings: &ServiceSettings, key_variable: &str) -> Result<SecretString> {
        let key = self
            .read_key(settings)?
            .or_else(|| read_secret_variable(key_variable));
        key.ok_or_else(|| {
            self.setting_error(
                "provider",
                &format!("set api_key, or the environment variable {key_variable}"),
            )
        })
    }

    fn missing_provider(&self) -> Failure {
        self.setting_error(
            "api_key",
            "set provider to the service that the key belongs to",
        )
    }

    fn read_timeout(&self, timeout: Option<f64>) -> Result<Duration> {
        timeout.map_or(Ok(DEFAULT_TIMEOUT), |timeout| {
            parse_seconds(&format!("{}.timeout", self.tool_name), timeout)
        })
    }

    fn read_url(&self, key: &str, url: Option<&str>) -> Result<Option<Url>> {
        let Some(url) = url else {
            return Ok(None);
        };
        let parsed_url = Url::parse(url).ok().filter(|url| {
            let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
            is_http && url.username().is_empty() && url.password().is_none()
        });
        parsed_url.map(Some).ok_or_else(|| {
            self.setting_error(key, "expected an http:// or https:// URL without password")
        })
    }
}

fn read_secret_variable(name: &str) -> Option<SecretString> {
    read_text_variable(name).map(SecretString::from)
}

/// Returns the value of an environment variable, unless it is empty.
fn read_text_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}
