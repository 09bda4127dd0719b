//! The constructor arguments of `ToolAwareChat`.

use std::collections::BTreeMap;
use std::time::Duration;

use ext_php_rs::types::Zval;
use http::{HeaderMap, HeaderName, HeaderValue};
use pillion_chat::{ChatLimits, HttpModel, HttpModelConfig, TurnOptions};
use pillion_providers::Provider;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use url::Url;

use super::keys::PhpKeySource;
use crate::duration::seconds;
use crate::exception;
use crate::json::to_value_as;
use crate::mcp::without_value;
use crate::runtime;
use crate::zend::{Failure, is_callable, member, type_name, without_entry};

/// The key of the model array whose value may be a callable.
const API_KEY: &str = "api_key";

/// Default timeout of a chat's run.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// The settings of a chat: its options.
#[derive(Debug)]
pub struct ChatSettings {
    pub system: Option<String>,
    /// Whether the model may use tools.
    pub with_tools: bool,
    pub options: TurnOptions,
    pub timeout: Duration,
    limits: ChatLimits,
}

impl ChatSettings {
    /// Returns the limits of the tool loop.
    pub(super) fn limits(&self, model: &ModelSettings) -> ChatLimits {
        ChatLimits {
            context_tokens: model.context_tokens,
            timeout: self.timeout,
            ..self.limits.clone()
        }
    }
}

/// A language model, and how to reach its provider.
pub struct ModelSettings {
    /// The model's name at the provider.
    pub model: String,
    config: HttpModelConfig,
    key: Key,
    context_tokens: Option<u64>,
    /// Identifies the settings: models with the same settings share connections.
    identity: String,
}

enum Key {
    None,
    Text(SecretString),
    /// A callable that returns the key; the chat object stores it.
    Callable,
}

impl ModelSettings {
    /// Returns the model, with connections shared by the chats of this process.
    ///
    /// # Errors
    /// An `InvalidInputException` if the egress policy forbids requests to the provider's URL.
    pub(super) fn create_model(&self) -> Result<HttpModel, Failure> {
        runtime::language_model(&self.identity, || {
            let config = self.config.clone();
            let config_with_key = match &self.key {
                Key::None => config,
                Key::Text(key) => config.with_key(key.clone()),
                Key::Callable => config.with_key(PhpKeySource),
            };
            HttpModel::new(config_with_key)
                .map_err(|error| exception::for_code(error.code(), error.message))
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionData {
    system: Option<String>,
    enable_tools: Option<bool>,
    temperature: Option<f64>,
    max_output_tokens: Option<u64>,
    timeout: Option<f64>,
    top_p: Option<f64>,
    stop: Option<Vec<String>>,
    extra: Option<Map<String, Value>>,
    max_tool_calls: Option<usize>,
    max_tool_rounds: Option<usize>,
    max_calls_per_answer: Option<usize>,
    max_total_tokens: Option<u64>,
}

/// Options of chats in this process; for chats in the sidecar, the sidecar's configuration sets
/// them.
const LOCAL_ONLY_OPTIONS: [&str; 7] = [
    "top_p",
    "stop",
    "extra",
    "max_tool_calls",
    "max_tool_rounds",
    "max_calls_per_answer",
    "max_total_tokens",
];

/// Reads the options of a chat; missing options have their defaults.
///
/// # Errors
/// An `InvalidInputException` that names the invalid key.
pub fn read_options(value: Option<&Zval>, in_sidecar: bool) -> Result<ChatSettings, Failure> {
    let value = match value {
        Some(value) => to_value_as("argument $options", value)?,
        None => Value::Null,
    };
    if let Some(key) = value
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .find(|key| in_sidecar && LOCAL_ONLY_OPTIONS.contains(&key.as_str()))
    {
        return Err(exception::invalid_input(format!(
            "Invalid chat option '{key}': set it in the sidecar's configuration instead"
        )));
    }
    let data: OptionData = read("chat option", value)?;
    let limits = ChatLimits::default();
    Ok(ChatSettings {
        system: data.system,
        with_tools: data.enable_tools.unwrap_or(true),
        options: TurnOptions {
            temperature: data.temperature,
            top_p: data.top_p,
            max_output_tokens: data.max_output_tokens,
            stop: data.stop.unwrap_or_default(),
            extra: data.extra.unwrap_or_default(),
            ..TurnOptions::default()
        },
        timeout: match data.timeout {
            Some(timeout) => seconds("timeout", timeout)?,
            None => DEFAULT_TIMEOUT,
        },
        limits: ChatLimits {
            max_tool_calls: data.max_tool_calls.unwrap_or(limits.max_tool_calls),
            max_tool_rounds: data.max_tool_rounds.unwrap_or(limits.max_tool_rounds),
            max_calls_per_answer: (data.max_calls_per_answer)
                .unwrap_or(limits.max_calls_per_answer),
            max_total_tokens: data.max_total_tokens,
            ..limits
        },
    })
}

/// The keys of a model array that specify how to reach the model. The array may contain other keys,
/// which are ignored.
#[derive(Deserialize)]
struct ModelData {
    provider: Option<String>,
    api: Option<String>,
    base_url: Option<String>,
    model: Option<String>,
    id: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    context_tokens: Option<u64>,
    reasoning: Option<bool>,
    max_retries: Option<u32>,
}

/// A language model that PHP code describes as an array.
pub struct ParsedModel {
    pub settings: ModelSettings,
    /// The callable that returns the provider's key, or null.
    pub callable: Zval,
    /// The model array without credentials, for the tools' `isEnabledForModel()`.
    pub shown: Zval,
}

/// Reads the array that describes a model.
///
/// # Errors
/// An `InvalidInputException` that names the invalid key.
pub fn read_model(value: &Zval) -> Result<ParsedModel, Failure> {
    let (key, callable) = read_key(value)?;
    let shown = without_entry(value, API_KEY);
    let data: ModelData = read("model key", to_value_as("argument $model", &shown)?)?;
    let model = data
        .model
        .or(data.id)
        .filter(|model| !model.is_empty())
        .ok_or_else(|| invalid("model", "the provider's name of the model"))?;
    let named = data.api.as_deref().or(data.provider.as_deref());
    let by_name = named.map(str::parse::<Provider>);
    let provider = match (&data.api, by_name) {
        (Some(_), Some(Err(error))) => return Err(invalid("api", &error.to_string())),
        (_, Some(Ok(provider))) => provider,
        // Most model servers are compatible with OpenAI's API, so it is the default.
        _ => Provider::OpenAiChat,
    };
    let is_own = data
        .provider
        .as_deref()
        .is_none_or(|name| name.parse::<Provider>().is_ok());
    let base_url = match (&data.base_url, is_own && named.is_some()) {
        (Some(url), _) => url.as_str(),
        (None, true) => provider.api().base_url(),
        (None, false) => {
            return Err(invalid(
                "base_url",
                "the provider's base URL, such as http://127.0.0.1:11434/v1",
            ));
        }
    };
    // The URL may contain a key, so errors do not include it.
    let url: Url = (base_url.parse()).map_err(|_| invalid("base_url", "a URL"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid(
            "base_url",
            "a URL without credentials: use 'api_key'",
        ));
    }
    let mut config = HttpModelConfig::new(provider, url, model.clone());
    config.provider_name.clone_from(&data.provider);
    config.headers = parse_headers(data.headers.unwrap_or_default())?;
    config.reasoning = data.reasoning;
    config.max_retries = data.max_retries.unwrap_or(config.max_retries);
    // The request has effectively no timeout of its own: the timeout of the run applies.
    config.timeout = Duration::from_secs(u64::from(u32::MAX));
    let identity = connection_identity(&config, &key);
    Ok(ParsedModel {
        settings: ModelSettings {
            model,
            config,
            key,
            context_tokens: data.context_tokens,
            identity,
        },
        callable,
        shown: without_entry(&shown, "headers"),
    })
}

fn read_key(model: &Zval) -> Result<(Key, Zval), Failure> {
    let Some(value) = member(model, API_KEY).filter(|value| !value.is_null()) else {
        return Ok((Key::None, Zval::new()));
    };
    // A string is always a key, even if a function of that name exists.
    match value.str() {
        Some("") => Ok((Key::None, Zval::new())),
        Some(key) => Ok((Key::Text(SecretString::from(key.to_owned())), Zval::new())),
        None if is_callable(&value)? => Ok((Key::Callable, value)),
        None => Err(invalid(
            API_KEY,
            &format!("a string or callable, {} given", type_name(&value)),
        )),
    }
}

fn parse_headers(headers: BTreeMap<String, String>) -> Result<HeaderMap, Failure> {
    headers
        .into_iter()
        .map(|(name, value)| {
            let header: HeaderName = name
                .parse()
                .map_err(|_| invalid("headers", "names of headers as keys"))?;
            let mut header_value = HeaderValue::from_str(&value)
                .map_err(|_| invalid("headers", &format!("a valid header value in '{name}'")))?;
            header_value.set_sensitive(true);
            Ok((header, header_value))
        })
        .collect()
}

fn connection_identity(config: &HttpModelConfig, key: &Key) -> String {
    let key = match key {
        Key::None => "",
        Key::Text(key) => key.expose_secret(),
        Key::Callable => "\0callable",
    };
    let headers: String = (config.headers.iter())
        .map(|(name, value)| format!("{name}\0{}\0", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    format!(
        "{}\0{}\0{}\0{}\0{}\0{:?}\0{headers}\0{key}",
        config.provider,
        config.provider_name.as_deref().unwrap_or_default(),
        config.base_url,
        config.model,
        config.max_retries,
        config.reasoning
    )
}

/// Deserializes settings; an empty list counts as an empty map, because PHP writes an empty map as
/// `[]`.
fn read<T: DeserializeOwned>(what: &str, data: Value) -> Result<T, Failure> {
    let mut data = match data {
        Value::Null => Value::Object(Map::new()),
        Value::Array(list) if list.is_empty() => Value::Object(Map::new()),
        data => data,
    };
    for key in ["headers", "extra"] {
        if let Some(value) = data.get_mut(key)
            && value.as_array().is_some_and(Vec::is_empty)
        {
            *value = Value::Object(Map::new());
        }
    }
    serde_path_to_error::deserialize(data).map_err(|error| {
        let path = error.path().to_string();
        let why = without_value(path.starts_with("headers"), &error.inner().to_string())
            .replace("expected f64", "expected a number");
        exception::invalid_input(format!("Invalid {what} '{path}': {why}"))
    })
}

fn invalid(key: &str, expected: &str) -> Failure {
    exception::invalid_input(format!("Invalid model key '{key}': it must be {expected}"))
}
