//! Settings of built-in tools in addition to the common [`ToolSection`](super::ToolSection): the
//! services of `[tools.get_weather]` and `[tools.web_search]`, and the time zone of
//! `[tools.get_time]`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use pillion_builtins::get_weather::{Units, WeatherService};
use pillion_builtins::web_search::SearchService;
use pillion_builtins::{GetTime, SearchSettings, WeatherSettings};
use pillion_egress::EgressPolicy;
use secrecy::SecretString;
use serde::{Deserialize, Deserializer, de};
use toml::{Table, Value};
use url::Url;

use super::entry::{self, EntryError, Result, Variables};
use super::field_names::field_names;
use super::network_tools::{DEFAULT_TIMEOUT, TOOL_NAMES};
use super::{KeyPath, ToolSection};

/// Settings of the built-in tools that have settings in addition to the common ones. Debug output
/// contains no API key.
#[derive(Debug, Clone)]
pub struct BuiltinTools {
    /// Settings of `get_weather`; `None` disables the tool.
    pub get_weather: Option<WeatherSettings>,
    /// Settings of `web_search`; `None` disables the tool.
    pub web_search: Option<SearchSettings>,
    /// The API keys that the services need. If a key is in the vault, the settings of its service
    /// contain an empty key.
    pub keys: Vec<ServiceKey>,
    /// The IANA time zone that `get_time` uses if the call names none; `None` means `UTC`.
    pub time_zone: Option<String>,
}

/// The API key that a tool's service needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceKey {
    /// The name of the tool that uses the service.
    pub tool: &'static str,
    /// The name of the service, as in the tool's setting `provider`.
    pub service: &'static str,
    /// Whether the key comes from the vault; otherwise the key comes from an environment
    /// variable.
    pub is_in_vault: bool,
}

/// By default, neither `get_weather` nor `web_search` has a provider: the configuration must choose
/// one.
impl Default for BuiltinTools {
    fn default() -> Self {
        Self {
            get_weather: Some(WeatherSettings {
                service: WeatherService::Unset,
                ..WeatherSettings::default()
            }),
            web_search: Some(SearchSettings::default()),
            keys: Vec::new(),
            time_zone: None,
        }
    }
}

/// The keys of `[tools.get_weather]` in addition to the common keys of all tools.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WeatherKeys {
    provider: Option<WeatherName>,
    api_key_env: Option<Value>,
    base_url: Option<ServiceUrl>,
    geocoding_url: Option<ServiceUrl>,
    units: Units,
    egress: EgressPolicy,
}

/// The keys of `[tools.web_search]` in addition to the common keys of all tools.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SearchKeys {
    provider: Option<SearchName>,
    api_key_env: Option<Value>,
    cx: Option<String>,
    base_url: Option<ServiceUrl>,
    egress: EgressPolicy,
}

/// The keys of `[tools.get_time]` in addition to the common keys of all tools.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TimeKeys {
    timezone: Option<String>,
}

impl TimeKeys {
    const TOOL_NAME: &'static str = "get_time";

    fn resolve(self) -> Result<Option<String>> {
        let tool = (self.timezone.as_deref()).map(|zone| GetTime::new(zone, SystemTime::now));
        match tool.transpose() {
            Ok(_) => Ok(self.timezone),
            Err(error) => {
                let key = tool_path(Self::TOOL_NAME).join_name("timezone");
                Err(entry::entry_error(key, error.to_string()))
            }
        }
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WeatherName {
    OpenMeteo,
    #[serde(rename = "openweathermap")]
    OpenWeatherMap,
    Mock,
    None,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SearchName {
    Google,
    Brave,
    SearXng,
    Mock,
    None,
}

/// The URL of a service, without password and query, because settings are shown to users.
#[derive(Debug, Clone)]
struct ServiceUrl(Url);

/// The keys of `[tools]` that are not common to all tools, before environment variables are
/// resolved.
#[derive(Debug)]
pub(super) struct BuiltinKeys {
    weather: WeatherKeys,
    search: SearchKeys,
    time: TimeKeys,
}

/// Removes the keys that are not common to all tools from `[tools]`, and returns them.
pub(super) fn take(config: &mut Table) -> Result<BuiltinKeys> {
    let [weather, search] = TOOL_NAMES;
    Ok(BuiltinKeys {
        weather: take_tool_keys(config, weather)?,
        search: take_tool_keys(config, search)?,
        time: take_tool_keys(config, TimeKeys::TOOL_NAME)?,
    })
}

fn take_tool_keys<T: de::DeserializeOwned>(config: &mut Table, tool: &str) -> Result<T> {
    let tools = config.get_mut("tools").and_then(Value::as_table_mut);
    let section = tools.and_then(|tools| tools.get_mut(tool)?.as_table_mut());
    let mut tool_keys = Table::new();
    if let Some(section) = section {
        for name in field_names::<T>() {
            if let Some(value) = section.remove(*name) {
                tool_keys.insert((*name).to_owned(), value);
            }
        }
    }
    entry::read(tool_keys, &tool_path(tool))
}

/// Returns the keys that the tool has in addition to the common keys of all tools.
pub(super) fn list_extra_keys(tool: &str) -> &'static [&'static str] {
    let [weather, search] = TOOL_NAMES;
    match tool {
        _ if tool == weather => field_names::<WeatherKeys>(),
        _ if tool == search => field_names::<SearchKeys>(),
        TimeKeys::TOOL_NAME => field_names::<TimeKeys>(),
        _ => &[],
    }
}

fn tool_path(tool: &str) -> KeyPath {
    KeyPath::from_names(["tools", tool])
}

impl BuiltinKeys {
    /// Returns the settings with the API keys from the environment. If `has_vault` is `true`, an
    /// API key that no environment variable contains is expected to be in the vault.
    pub(super) fn resolve(
        self,
        tools: &BTreeMap<String, ToolSection>,
        variables: &Variables,
        has_vault: bool,
    ) -> Result<BuiltinTools> {
        let sources = KeySources {
            variables,
            has_vault,
            keys: RefCell::default(),
        };
        let tool_timeout = |name: &str| tools.get(name).and_then(|tool| tool.timeout);
        let [weather, search] = TOOL_NAMES;
        let weather_timeout = tool_timeout(weather).unwrap_or(DEFAULT_TIMEOUT);
        let search_timeout = tool_timeout(search).unwrap_or(DEFAULT_TIMEOUT);
        Ok(BuiltinTools {
            get_weather: self.weather.resolve(weather_timeout, &sources)?,
            web_search: self.search.resolve(search_timeout, &sources)?,
            keys: sources.keys.into_inner(),
            time_zone: self.time.resolve()?,
        })
    }
}

impl WeatherKeys {
    fn resolve(
        self,
        timeout: Duration,
        sources: &KeySources<'_>,
    ) -> Result<Option<WeatherSettings>> {
        let key_source = ToolKeySource {
            tool: TOOL_NAMES[0],
            variable_name: self.api_key_env,
            sources,
        };
        let default_variable = "OPENWEATHER_API_KEY";
        let service = match self.provider {
            Some(WeatherName::None) => return Ok(None),
            Some(WeatherName::Mock) => WeatherService::Mock,
            Some(WeatherName::OpenMeteo) => WeatherService::OpenMeteo {
                api_key: key_source.read_named_key()?,
            },
            Some(WeatherName::OpenWeatherMap) => WeatherService::OpenWeatherMap {
                api_key: key_source.require_key("openweathermap", default_variable)?,
            },
            None if key_source.variable_name.is_some() => {
                return Err(key_source.missing_provider_error());
            }
            None => match key_source.find_variable(default_variable) {
                Some(api_key) => {
                    key_source.record_key("openweathermap", false);
                    WeatherService::OpenWeatherMap { api_key }
                }
                None => WeatherService::Unset,
            },
        };
        Ok(Some(WeatherSettings {
            service,
            base_url: self.base_url.map(|url| url.0),
            geocoding_url: self.geocoding_url.map(|url| url.0),
            units: self.units,
            timeout,
            egress: self.egress,
        }))
    }
}

impl SearchKeys {
    fn resolve(
        self,
        timeout: Duration,
        sources: &KeySources<'_>,
    ) -> Result<Option<SearchSettings>> {
        let key_source = ToolKeySource {
            tool: TOOL_NAMES[1],
            variable_name: self.api_key_env,
            sources,
        };
        let (default_variable, cx_variable) = ("GOOGLE_SEARCH_API_KEY", "GOOGLE_SEARCH_CX");
        let base_url = self.base_url.map(|url| url.0);
        let read_engine = || read_variable(sources.variables, cx_variable);
        let cx = self.cx.or_else(read_engine);
        let service = match self.provider {
            Some(SearchName::None) => return Ok(None),
            Some(SearchName::Mock) => Some(SearchService::Mock),
            Some(SearchName::Google) => {
                let Some(engine) = cx else {
                    let message = format!(
                        "set cx (the ID of the search engine) or the environment variable \
                         {cx_variable}"
                    );
                    return Err(key_source.key_error("cx", &message));
                };
                let api_key = key_source.require_key("google", default_variable)?;
                Some(SearchService::Google { api_key, engine })
            }
            Some(SearchName::Brave) => Some(SearchService::Brave {
                api_key: key_source.require_key("brave", "BRAVE_SEARCH_API_KEY")?,
            }),
            Some(SearchName::SearXng) => {
                let Some(base_url) = base_url.clone() else {
                    let message = "set base_url to the URL of the SearXNG server";
                    return Err(key_source.key_error("base_url", message));
                };
                Some(SearchService::SearXng { base_url })
            }
            None if key_source.variable_name.is_some() => {
                return Err(key_source.missing_provider_error());
            }
            None => {
                let key_and_engine = key_source.find_variable(default_variable).zip(cx);
                key_and_engine.map(|(api_key, engine)| {
                    key_source.record_key("google", false);
                    SearchService::Google { api_key, engine }
                })
            }
        };
        Ok(Some(SearchSettings {
            service,
            base_url,
            timeout,
            egress: self.egress,
        }))
    }
}

/// The sources from which API keys are read, and the list of the keys that the configured services
/// need.
struct KeySources<'a> {
    variables: &'a Variables,
    has_vault: bool,
    keys: RefCell<Vec<ServiceKey>>,
}

/// Where a tool's API key comes from.
struct ToolKeySource<'a> {
    tool: &'static str,
    /// The value of `api_key_env`.
    variable_name: Option<Value>,
    sources: &'a KeySources<'a>,
}

impl ToolKeySource<'_> {
    /// Returns the API key from the environment variable that `api_key_env` names; `None` if
    /// `api_key_env` is not set.
    fn read_named_key(&self) -> Result<Option<SecretString>> {
        let Some(name) = &self.variable_name else {
            return Ok(None);
        };
        let path = tool_path(self.tool).join_name("api_key_env");
        let key = entry::variable_value(Some(name.clone()), &path, self.sources.variables)?;
        Ok(Some(key.into()))
    }

    /// Returns the API key from the environment variable that `api_key_env` names, or else from the
    /// service's `default_variable`. If neither is set, returns an empty key if the vault may have
    /// the key.
    fn require_key(&self, service: &'static str, default_variable: &str) -> Result<SecretString> {
        let key = self
            .read_named_key()?
            .or_else(|| self.find_variable(default_variable));
        self.record_key(service, key.is_none());
        match key {
            Some(key) => Ok(key),
            None if self.sources.has_vault => Ok(SecretString::default()),
            None => {
                let message = format!(
                    "the provider needs an API key: set the environment variable \
                    {default_variable} or api_key_env, or configure a vault that has the key"
                );
                Err(self.key_error("provider", &message))
            }
        }
    }

    /// Records that the tool's service needs an API key.
    fn record_key(&self, service: &'static str, is_in_vault: bool) {
        self.sources.keys.borrow_mut().push(ServiceKey {
            tool: self.tool,
            service,
            is_in_vault,
        });
    }

    fn find_variable(&self, name: &str) -> Option<SecretString> {
        read_variable(self.sources.variables, name).map(SecretString::from)
    }

    fn missing_provider_error(&self) -> EntryError {
        let message = "set provider to the service that the key belongs to";
        self.key_error("api_key_env", message)
    }

    fn key_error(&self, key: &str, message: &str) -> EntryError {
        entry::entry_error(tool_path(self.tool).join_name(key), message)
    }
}

/// Returns the value of an environment variable; `None` if the value is blank.
fn read_variable(variables: &Variables, name: &str) -> Option<String> {
    let text = variables.get(name)?.to_str()?;
    (!text.trim().is_empty()).then(|| text.to_owned())
}

impl<'de> Deserialize<'de> for ServiceUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let url = Url::parse(&text).ok().filter(|url| {
            let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
            let has_only_path = url.query().is_none() && url.fragment().is_none();
            is_http && has_only_path && url.username().is_empty() && url.password().is_none()
        });
        url.map(Self).ok_or_else(|| {
            de::Error::custom("expected an http:// or https:// URL without user, password or query")
        })
    }
}

#[cfg(test)]
mod tests;
