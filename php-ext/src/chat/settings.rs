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
use crate::duration::parse_seconds;
use crate::exception;
use crate::json::to_value_as;
use crate::mcp::redact_message;
use crate::runtime;
use crate::zend::{Failure, Result, is_callable, member, type_name, without_entry};

/// The only key of the model array whose value may be a callable.
const API_KEY: &str = "api_key";

/// Default timeout of a chat's run.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// The options of a chat.
#[derive(Debug)]
pub struct ChatSettings {
    pub system: Option<String>,
    /// Whether the model may use tools.
    pub can_use_tools: bool,
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
    key: ProviderKey,
    context_tokens: Option<u64>,
    /// The text that identifies the model's settings. Models with the same settings share
    /// connections.
    identity: String,
}

enum ProviderKey {
    None,
    Text(SecretString),
    /// A callable, stored in the chat object, returns the API key.
    Callable,
}

impl ModelSettings {
    /// Returns the model, with connections shared by the chats of this process.
    ///
    /// # Errors
    /// An `InvalidInputException` if the egress policy forbids requests to the provider's URL.
    pub(super) fn create_model(&self) -> Result<HttpModel> {
        runtime::language_model(&self.identity, || {
            let config = self.config.clone();
            let config_with_key = match &self.key {
                ProviderKey::None => config,
                ProviderKey::Text(key) => config.with_key(key.clone()),
                ProviderKey::Callable => config.with_key(PhpKeySource),
            };
            HttpModel::new(config_with_key)
                .map_err(|error| exception::for_code(error.code(), error.message))
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionFields {
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

/// The options that apply only to chats in this process. For chats in the sidecar, the sidecar's
/// configuration sets the corresponding limits.
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
pub fn read_options(options: Option<&Zval>, is_in_sidecar: bool) -> Result<ChatSettings> {
    let value = match options {
        Some(options) => to_value_as("argument $options", options)?,
        None => Value::Null,
    };
    if let Some(key) = value
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .find(|key| is_in_sidecar && LOCAL_ONLY_OPTIONS.contains(&key.as_str()))
    {
        return Err(exception::invalid_input(format!(
            "Invalid chat option '{key}': set it in the sidecar's configuration instead"
        )));
    }
    let fields: OptionFields = deserialize_settings("chat option", value)?;
    let limits = ChatLimits::default();
    Ok(ChatSettings {
        system: fields.system,
        can_use_tools: fields.enable_tools.unwrap_or(true),
        options: TurnOptions {
            temperature: fields.temperature,
            top_p: fields.top_p,
            max_output_tokens: fields.max_output_tokens,
            stop: fields.stop.unwrap_or_default(),
            extra: fields.extra.unwrap_or_default(),
            ..TurnOptions::default()
        },
        timeout: match fields.timeout {
            Some(timeout) => parse_seconds("timeout", timeout)?,
            None => DEFAULT_TIMEOUT,
        },
        limits: ChatLimits {
            max_tool_calls: fields.max_tool_calls.unwrap_or(limits.max_tool_calls),
            max_tool_rounds: fields.max_tool_rounds.unwrap_or(limits.max_tool_rounds),
            max_calls_per_response: (fields.max_calls_per_answer)
                .unwrap_or(limits.max_calls_per_response),
            max_total_tokens: fields.max_total_tokens,
            ..limits
        },
    })
}

/// The keys of a model array that specify how to reach the model. The array may contain other keys,
/// which are ignored.
#[derive(Deserialize)]
struct ModelFields {
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
    /// The callable that returns the provider's API key, or null.
    pub key_callable: Zval,
    /// The model array without credentials, for the tools' `isEnabledForModel()`.
    pub model_without_credentials: Zval,
}

/// Reads the array that describes a model.
///
/// # Errors
/// An `InvalidInputException` that names the invalid key.
pub fn read_model(value: &Zval) -> Result<ParsedModel> {
    let (key, key_callable) = read_key(value)?;
    let model_without_key = without_entry(value, API_KEY);
    let fields: ModelFields = deserialize_settings(
        "model key",
        to_value_as("argument $model", &model_without_key)?,
    )?;
    let model = fields
        .model
        .or(fields.id)
        .filter(|model| !model.is_empty())
        .ok_or_else(|| invalid_model_key("model", "the provider's name of the model"))?;
    let provider_name = fields.api.as_deref().or(fields.provider.as_deref());
    let parsed_provider = provider_name.map(str::parse::<Provider>);
    let provider = match (&fields.api, parsed_provider) {
        (Some(_), Some(Err(error))) => return Err(invalid_model_key("api", &error.to_string())),
        (_, Some(Ok(provider))) => provider,
        // The default API format is OpenAI's, because most model servers are compatible with it.
        _ => Provider::OpenAiChat,
    };
    let is_known = |name: &str| name.parse::<Provider>().is_ok();
    let has_default_url =
        provider_name.is_some() && fields.provider.as_deref().is_none_or(is_known);
    let base_url = match (&fields.base_url, has_default_url) {
        (Some(url), _) => url.as_str(),
        (None, true) => provider.api().base_url(),
        (None, false) => {
            return Err(invalid_model_key(
                "base_url",
                "the provider's base URL, such as http://127.0.0.1:11434/v1",
            ));
        }
    };
    // Errors do not include the URL, because it may contain a key.
    let url: Url = (base_url.parse()).map_err(|_| invalid_model_key("base_url", "a URL"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid_model_key(
            "base_url",
            "a URL without credentials: use 'api_key'",
        ));
    }
    let mut config = HttpModelConfig::new(provider, url, model.clone());
    config.provider_name.clone_from(&fields.provider);
    config.headers = parse_headers(fields.headers.unwrap_or_default())?;
    config.reasoning = fields.reasoning;
    config.max_retries = fields.max_retries.unwrap_or(config.max_retries);
    // A single request to the model has effectively no timeout, because the timeout of the chat's
    // run also ends the request.
    config.timeout = Duration::from_secs(u64::from(u32::MAX));
    let identity = connection_identity(&config, &key);
    Ok(ParsedModel {
        settings: ModelSettings {
            model,
            config,
            key,
            context_tokens: fields.context_tokens,
            identity,
        },
        key_callable,
        model_without_credentials: without_entry(&model_without_key, "headers"),
    })
}

fn read_key(model: &Zval) -> Result<(ProviderKey, Zval)> {
    let Some(value) = member(model, API_KEY).filter(|value| !value.is_null()) else {
        return Ok((ProviderKey::None, Zval::new()));
    };
    // A string is always the API key itself, even if a function of that name exists.
    match value.str() {
        Some("") => Ok((ProviderKey::None, Zval::new())),
        Some(key) => Ok((ProviderKey::Text(key.into()), Zval::new())),
        None if is_callable(&value)? => Ok((ProviderKey::Callable, value)),
        None => Err(invalid_model_key(
            API_KEY,
            &format!("a string or callable, {} given", type_name(&value)),
        )),
    }
}

fn parse_headers(headers: BTreeMap<String, String>) -> Result<HeaderMap> {
    headers
        .into_iter()
        .map(|(name, value)| {
            let header_name: HeaderName = name
                .parse()
                .map_err(|_| invalid_model_key("headers", "an array with header names as keys"))?;
            let mut header_value = HeaderValue::from_str(&value).map_err(|_| {
                invalid_model_key("headers", &format!("a valid header value in '{name}'"))
            })?;
            header_value.set_sensitive(true);
            Ok((header_name, header_value))
        })
        .collect()
}

fn connection_identity(config: &HttpModelConfig, key: &ProviderKey) -> String {
    let key_text = match key {
        ProviderKey::None => "",
        ProviderKey::Text(key) => key.expose_secret(),
        ProviderKey::Callable => "\0callable",
    };
    let headers: String = (config.headers.iter())
        .map(|(name, value)| format!("{name}\0{}\0", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    format!(
        "{}\0{}\0{}\0{}\0{}\0{:?}\0{headers}\0{key_text}",
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
fn deserialize_settings<T: DeserializeOwned>(kind: &str, value: Value) -> Result<T> {
    let mut fields = match value {
        Value::Null => Value::Object(Map::new()),
        Value::Array(list) if list.is_empty() => Value::Object(Map::new()),
        value => value,
    };
    for key in ["headers", "extra"] {
        if let Some(value) = fields.get_mut(key)
            && value.as_array().is_some_and(Vec::is_empty)
        {
            *value = Value::Object(Map::new());
        }
    }
    serde_path_to_error::deserialize(fields).map_err(|error| {
        let path = error.path().to_string();
        let reason = redact_message(path.starts_with("headers"), &error.inner().to_string())
            .replace("expected f64", "expected a number");
        exception::invalid_input(format!("Invalid {kind} '{path}': {reason}"))
    })
}

fn invalid_model_key(key: &str, expected: &str) -> Failure {
    exception::invalid_input(format!("Invalid model key '{key}': it must be {expected}"))
}
