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

use super::entry::{self, EntryError, Variables};
use super::field_names::field_names;
use super::network_tools::{DEFAULT_TIMEOUT, NAMES};
use super::{KeyPath, ToolSection};

/// Settings of the built-in tools that have settings of their own. `Debug` shows no API key.
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
    /// Whether the key comes from the vault; otherwise it comes from an environment variable.
    pub is_in_vault: bool,
}

/// No provider is used by default.
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
    const TOOL: &'static str = "get_time";

    fn resolve(self) -> Result<Option<String>, EntryError> {
        let tool = (self.timezone.as_deref()).map(|zone| GetTime::new(zone, SystemTime::now));
        match tool.transpose() {
            Ok(_) => Ok(self.timezone),
            Err(unknown) => {
                let key = tool_path(Self::TOOL).join_name("timezone");
                Err(entry::fault(key, unknown.to_string()))
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

/// The URL of a service, without password or query: settings are shown to users.
#[derive(Debug, Clone)]
struct ServiceUrl(Url);

/// The keys of tools besides the common keys, before environment variables are resolved.
#[derive(Debug)]
pub(super) struct BuiltinKeys {
    weather: WeatherKeys,
    search: SearchKeys,
    time: TimeKeys,
}

/// Removes the keys that are not common to all tools from `[tools]`. The common keys remain.
pub(super) fn take(config: &mut Table) -> Result<BuiltinKeys, EntryError> {
    let [weather, search] = NAMES;
    Ok(BuiltinKeys {
        weather: take_from(config, weather)?,
        search: take_from(config, search)?,
        time: take_from(config, TimeKeys::TOOL)?,
    })
}

fn take_from<T: de::DeserializeOwned>(config: &mut Table, tool: &str) -> Result<T, EntryError> {
    let tools = config.get_mut("tools").and_then(Value::as_table_mut);
    let section = tools.and_then(|tools| tools.get_mut(tool)?.as_table_mut());
    let mut own = Table::new();
    if let Some(section) = section {
        for name in field_names::<T>() {
            if let Some(value) = section.remove(*name) {
                own.insert((*name).to_owned(), value);
            }
        }
    }
    entry::read(own, &tool_path(tool))
}

/// Returns the keys that the tool has in addition to the common keys of all tools.
pub(super) fn extra_keys(tool: &str) -> &'static [&'static str] {
    let [weather, search] = NAMES;
    match tool {
        _ if tool == weather => field_names::<WeatherKeys>(),
        _ if tool == search => field_names::<SearchKeys>(),
        TimeKeys::TOOL => field_names::<TimeKeys>(),
        _ => &[],
    }
}

fn tool_path(tool: &str) -> KeyPath {
    KeyPath::from_names(["tools", tool])
}

impl BuiltinKeys {
    /// Returns the settings with the API keys from the environment. With `has_vault`, an API key
    /// that is in no environment variable is expected in the vault.
    pub(super) fn resolve(
        self,
        tools: &BTreeMap<String, ToolSection>,
        variables: &Variables,
        has_vault: bool,
    ) -> Result<BuiltinTools, EntryError> {
        let sources = KeySources {
            variables,
            has_vault,
            keys: RefCell::default(),
        };
        let timeout = |name: &str| tools.get(name).and_then(|tool| tool.timeout);
        let [weather, search] = NAMES;
        let weather_timeout = timeout(weather).unwrap_or(DEFAULT_TIMEOUT);
        let search_timeout = timeout(search).unwrap_or(DEFAULT_TIMEOUT);
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
    ) -> Result<Option<WeatherSettings>, EntryError> {
        let secrets = Secrets {
            tool: NAMES[0],
            path: tool_path(NAMES[0]),
            named: self.api_key_env,
            sources,
        };
        let usual = "OPENWEATHER_API_KEY";
        let service = match self.provider {
            Some(WeatherName::None) => return Ok(None),
            Some(WeatherName::Mock) => WeatherService::Mock,
            Some(WeatherName::OpenMeteo) => WeatherService::OpenMeteo {
                api_key: secrets.named()?,
            },
            Some(WeatherName::OpenWeatherMap) => WeatherService::OpenWeatherMap {
                api_key: secrets.require_key("openweathermap", usual)?,
            },
            None if secrets.is_named() => return Err(secrets.missing_provider_fault()),
            None => match secrets.variable(usual) {
                Some(api_key) => {
                    secrets.record_key("openweathermap", false);
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
    ) -> Result<Option<SearchSettings>, EntryError> {
        let secrets = Secrets {
            tool: NAMES[1],
            path: tool_path(NAMES[1]),
            named: self.api_key_env,
            sources,
        };
        let (usual, usual_cx) = ("GOOGLE_SEARCH_API_KEY", "GOOGLE_SEARCH_CX");
        let base_url = self.base_url.map(|url| url.0);
        let cx = self
            .cx
            .or_else(|| variable_text(sources.variables, usual_cx));
        let service = match self.provider {
            Some(SearchName::None) => return Ok(None),
            Some(SearchName::Mock) => Some(SearchService::Mock),
            Some(SearchName::Google) => {
                let Some(engine) = cx else {
                    return Err(secrets.fault_at(
                        "cx",
                        &format!("set cx, or the environment variable {usual_cx}"),
                    ));
                };
                let api_key = secrets.require_key("google", usual)?;
                Some(SearchService::Google { api_key, engine })
            }
            Some(SearchName::Brave) => Some(SearchService::Brave {
                api_key: secrets.require_key("brave", "BRAVE_SEARCH_API_KEY")?,
            }),
            Some(SearchName::SearXng) => {
                let Some(base_url) = base_url.clone() else {
                    return Err(secrets
                        .fault_at("base_url", "set base_url to the URL of the SearXNG server"));
                };
                Some(SearchService::SearXng { base_url })
            }
            None if secrets.is_named() => return Err(secrets.missing_provider_fault()),
            None => {
                let both = secrets.variable(usual).zip(cx);
                both.map(|(api_key, engine)| {
                    secrets.record_key("google", false);
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

/// The sources of API keys, and the keys that were required so far.
struct KeySources<'a> {
    variables: &'a Variables,
    has_vault: bool,
    keys: RefCell<Vec<ServiceKey>>,
}

/// Where a tool's API key comes from.
struct Secrets<'a> {
    tool: &'static str,
    /// The path of the tool's section.
    path: KeyPath,
    /// The value of `api_key_env`.
    named: Option<Value>,
    sources: &'a KeySources<'a>,
}

impl Secrets<'_> {
    fn is_named(&self) -> bool {
        self.named.is_some()
    }

    /// Returns the API key from the variable that `api_key_env` names, if it is set.
    fn named(&self) -> Result<Option<SecretString>, EntryError> {
        let Some(name) = &self.named else {
            return Ok(None);
        };
        let path = self.path.join_name("api_key_env");
        let key = entry::variable_value(Some(name.clone()), &path, self.sources.variables)?;
        Ok(Some(key.into()))
    }

    /// Returns the API key from the variable that `api_key_env` names, else from the service's
    /// usual variable `usual`, else an empty key if the vault may have the key.
    fn require_key(&self, service: &'static str, usual: &str) -> Result<SecretString, EntryError> {
        let key = match self.named()? {
            Some(key) => Some(key),
            None => self.variable(usual),
        };
        self.record_key(service, key.is_none());
        match key {
            Some(key) => Ok(key),
            None if self.sources.has_vault => Ok(SecretString::default()),
            None => {
                let message = format!(
                    "the provider needs an API key: set the environment variable {usual} or \
                    api_key_env, or configure a vault that has the key"
                );
                Err(self.fault_at("provider", &message))
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

    fn variable(&self, name: &str) -> Option<SecretString> {
        variable_text(self.sources.variables, name).map(SecretString::from)
    }

    fn missing_provider_fault(&self) -> EntryError {
        self.fault_at(
            "api_key_env",
            "set provider to the service that the key belongs to",
        )
    }

    fn fault_at(&self, key: &str, message: &str) -> EntryError {
        entry::fault(self.path.join_name(key), message)
    }
}

/// Returns the value of a variable; `None` if it is blank.
fn variable_text(variables: &Variables, name: &str) -> Option<String> {
    let text = variables.get(name)?.to_str()?;
    (!text.trim().is_empty()).then(|| text.to_owned())
}

impl<'de> Deserialize<'de> for ServiceUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let url = Url::parse(&text).ok().filter(|url| {
            let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
            let is_bare = url.query().is_none() && url.fragment().is_none();
            is_http && is_bare && url.username().is_empty() && url.password().is_none()
        });
        url.map(Self).ok_or_else(|| {
            de::Error::custom("expected an http:// or https:// URL without user, password or query")
        })
    }
}

#[cfg(test)]
mod tests;
