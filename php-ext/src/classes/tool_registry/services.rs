//! The built-in network tools, enabled by the application's settings, and the time zone of
//! `get_time`.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ext_php_rs::types::Zval;
use pillion_builtins::get_weather::{Units, WeatherProvider};
use pillion_builtins::web_search::SearchProvider;
use pillion_builtins::{GetTime, GetWeather, SearchSettings, WeatherSettings, WebSearch};
use pillion_core::tool::Tool;
use pillion_egress::EgressPolicy;
use secrecy::SecretString;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use url::Url;

use crate::classes::tool_definition::seconds;
use crate::exception;
use crate::json::to_value_as;
use crate::mcp::without_value;
use crate::zend::Failure;

/// Default timeout of a call.
const TIMEOUT: Duration = Duration::from_secs(10);

const TIME: &str = "get_time";
const WEATHER: &str = "get_weather";
const SEARCH: &str = "web_search";

/// The settings of a network tool. A key is either given directly or names an environment variable.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Given {
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
struct GivenTime {
    timezone: Option<String>,
}

/// Creates the tools that the `$services` array names, even with empty settings.
///
/// # Errors
/// An `InvalidInputException` naming the key.
pub(super) fn read(given: Option<&Zval>) -> Result<Vec<Arc<dyn Tool>>, Failure> {
    let given = given.map(|given| to_value_as("argument $services", given));
    let services = match given.transpose()? {
        Some(Value::Object(services)) => services,
        Some(Value::Array(list)) if !list.is_empty() => {
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
        let reader = Reader { tool: &name };
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

struct Reader<'a> {
    tool: &'a str,
}

impl Reader<'_> {
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

    fn time(&self, given: &GivenTime) -> Result<GetTime, Failure> {
        let zone = given.timezone.as_deref().unwrap_or("UTC");
        let tool = GetTime::new(zone, SystemTime::now);
        tool.map_err(|error| self.invalid("timezone", &error.to_string()))
    }

    fn weather(&self, given: Given) -> Result<WeatherSettings, Failure> {
        if given.cx.is_some() {
            return Err(self.invalid("cx", "it is one of web_search"));
        }
        let usual = "OPENWEATHER_API_KEY";
        let provider = match given.provider.as_deref() {
            Some("open-meteo") => WeatherProvider::OpenMeteo {
                api_key: self.key(&given)?,
            },
            Some("openweathermap") => WeatherProvider::OpenWeatherMap {
                api_key: self.wanted(&given, usual)?,
            },
            Some("mock") => WeatherProvider::Mock,
            Some(_) => {
                return Err(self.invalid("provider", "use open-meteo, openweathermap or mock"));
            }
            None if self.key(&given)?.is_some() => return Err(self.whose()),
            None => match variable(usual) {
                Some(api_key) => WeatherProvider::OpenWeatherMap { api_key },
                None => WeatherProvider::OpenMeteo { api_key: None },
            },
        };
        let units = given.units.as_deref().map(Units::from_name);
        Ok(WeatherSettings {
            provider,
            base_url: self.url("base_url", given.base_url.as_deref())?,
            geocoding_url: self.url("geocoding_url", given.geocoding_url.as_deref())?,
            units: match units {
                Some(None) => return Err(self.invalid("units", "use celsius or fahrenheit")),
                units => units.flatten().unwrap_or_default(),
            },
            timeout: self.timeout(given.timeout)?,
            egress: given.egress,
        })
    }

    fn search(&self, given: Given) -> Result<SearchSettings, Failure> {
        let of_weather = [
            ("units", &given.units),
            ("geocoding_url", &given.geocoding_url),
        ];
        if let Some((key, _)) = of_weather.iter().find(|(_, value)| value.is_some()) {
            return Err(self.invalid(key, "it is one of get_weather"));
        }
        let (usual, usual_cx) = ("GOOGLE_SEARCH_API_KEY", "GOOGLE_SEARCH_CX");
        let cx = given.cx.clone().or_else(|| text_of(usual_cx));
        let base_url = self.url("base_url", given.base_url.as_deref())?;
        let provider = match given.provider.as_deref() {
            Some("google") => Some(SearchProvider::Google {
                api_key: self.wanted(&given, usual)?,
                engine: cx.ok_or_else(|| {
                    self.invalid(
                        "cx",
                        &format!("set cx, or the environment variable {usual_cx}"),
                    )
                })?,
            }),
            Some("brave") => Some(SearchProvider::Brave {
                api_key: self.wanted(&given, "BRAVE_SEARCH_API_KEY")?,
            }),
            Some("searxng") => Some(SearchProvider::SearXng {
                base_url: (base_url.clone()).ok_or_else(|| {
                    self.invalid("base_url", "set base_url to the URL of the SearXNG server")
                })?,
            }),
            Some("mock") => Some(SearchProvider::Mock),
            Some(_) => return Err(self.invalid("provider", "use google, brave, searxng or mock")),
            None if self.key(&given)?.is_some() => return Err(self.whose()),
            None => variable(usual)
                .zip(cx)
                .map(|(api_key, engine)| SearchProvider::Google { api_key, engine }),
        };
        Ok(SearchSettings {
            provider,
            base_url,
            timeout: self.timeout(given.timeout)?,
            egress: given.egress,
        })
    }

    /// Returns the key in the settings, or in the environment variable that they name.
    fn key(&self, given: &Given) -> Result<Option<SecretString>, Failure> {
        match (&given.api_key, &given.api_key_env) {
            (Some(_), Some(_)) => Err(self.invalid("api_key", "absent beside api_key_env")),
            (Some(key), None) => Ok(Some(SecretString::from(key.clone()))),
            (None, Some(name)) => variable(name).map(Some).ok_or_else(|| {
                self.invalid("api_key_env", &format!("the variable {name} is not set"))
            }),
            (None, None) => Ok(None),
        }
    }

    /// Returns the key of [`key`](Self::key), or the key in the provider's usual environment
    /// variable.
    fn wanted(&self, given: &Given, usual: &str) -> Result<SecretString, Failure> {
        let key = self.key(given)?.or_else(|| variable(usual));
        key.ok_or_else(|| self.invalid("provider", &format!("it needs api_key, or {usual}")))
    }

    fn whose(&self) -> Failure {
        self.invalid(
            "api_key",
            "set provider to the service that the key belongs to",
        )
    }

    fn timeout(&self, given: Option<f64>) -> Result<Duration, Failure> {
        given.map_or(Ok(TIMEOUT), |given| {
            seconds(&format!("{}.timeout", self.tool), given)
        })
    }

    fn url(&self, key: &str, given: Option<&str>) -> Result<Option<Url>, Failure> {
        let Some(given) = given else {
            return Ok(None);
        };
        let url = Url::parse(given).ok().filter(|url| {
            let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
            is_http && url.username().is_empty() && url.password().is_none()
        });
        let url = url.ok_or_else(|| {
            self.invalid(key, "expected an http:// or https:// URL without password")
        });
        url.map(Some)
    }
}

fn variable(name: &str) -> Option<SecretString> {
    text_of(name).map(SecretString::from)
}

/// Returns the value of an environment variable, unless it is empty.
fn text_of(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}
