use std::time::Duration;

use pillion_core::mcp::{ServerConfig, Wording};
use serde_json::{Map, Value, json};

use crate::classes::tool_definition::seconds;
use crate::zend::Failure;
use crate::{exception, settings};

/// An MCP server as PHP code configures it.
pub struct Server {
    config: ServerConfig,
    /// The whole configuration as text, credentials too: two clients share a connection
    /// only if it is the same. Never shown.
    key: String,
}

/// How long an operation may take where neither the client nor a setting says so.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The options that have an argument of their own.
const ARGUMENTS: [&str; 2] = ["url", "timeout_ms"];

impl Server {
    /// Checks the arguments of `MCPSSEClient::__construct`.
    ///
    /// # Errors
    /// An `InvalidInputException` that names the option.
    pub fn new(
        url: &str,
        timeout: Option<f64>,
        api_key: Option<&str>,
        options: Value,
    ) -> Result<Self, Failure> {
        Self::labelled(None, url, timeout, api_key, options)
    }

    /// Reads a server entry as S4 has it; `None` without a URL.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_entry(entry: &Value) -> Result<Option<Self>, Failure> {
        let text = |key: &str| {
            let text = entry.get(key).and_then(Value::as_str).map(str::trim);
            text.filter(|text| !text.is_empty())
        };
        let Some(url) = text("server_url") else {
            return Ok(None);
        };
        let timeout = match entry.get("timeout") {
            None | Some(Value::Null) => None,
            Some(timeout) => Some(timeout.as_f64().ok_or_else(|| {
                exception::invalid_input("The server's 'timeout' must be a number of seconds")
            })?),
        };
        let options = entry.get("options").cloned().unwrap_or_else(|| json!({}));
        Self::labelled(text("server_label"), url, timeout, text("api_key"), options).map(Some)
    }

    fn labelled(
        label: Option<&str>,
        url: &str,
        timeout: Option<f64>,
        api_key: Option<&str>,
        options: Value,
    ) -> Result<Self, Failure> {
        let mut config = match options {
            Value::Object(options) => options,
            Value::Array(items) if items.is_empty() => Map::new(),
            _ => {
                return Err(exception::invalid_input(
                    "The options must be an array with names as keys",
                ));
            }
        };
        if let Some(key) = ARGUMENTS.iter().find(|key| config.contains_key(**key)) {
            return Err(exception::invalid_input(format!("Unknown option '{key}'")));
        }
        if let Some(key) = api_key {
            if config.contains_key("authentication") {
                return Err(exception::invalid_input(
                    "Give either an API key or the option 'authentication'",
                ));
            }
            config.insert(
                "authentication".to_owned(),
                json!({"type": "bearer", "token": key}),
            );
        }
        let timeout = match timeout {
            Some(timeout) => seconds("timeout", timeout)?,
            None => settings::timeout().unwrap_or(TIMEOUT),
        };
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        config.insert("url".to_owned(), json!(url));
        config.insert("timeout_ms".to_owned(), json!(timeout_ms));
        if let Some(label) = label {
            config.insert("label".to_owned(), json!(label));
        } else if !config.contains_key("label") {
            config.insert("label".to_owned(), json!("mcp"));
        }
        limit_by_setting(&mut config);
        let key = Value::Object(config.clone()).to_string();
        let allow_http = match config.remove("allow_http") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(allow)) => allow,
            Some(_) => {
                return Err(exception::invalid_input(
                    "Invalid MCP server option 'allow_http': true or false",
                ));
            }
        };
        let mut config: ServerConfig = serde_path_to_error::deserialize(Value::Object(config))
            .map_err(|error| {
                exception::invalid_input(format!(
                    "Invalid MCP server option '{}': {}",
                    error.path(),
                    error.inner()
                ))
            })?;
        if let (true, Some(url)) = (allow_http, config.url().cloned()) {
            config.egress.allow_http_to(&url);
        }
        if !config
            .url()
            .is_some_and(|url| url.scheme().starts_with("http"))
        {
            return Err(exception::invalid_input(
                "Invalid MCP server option 'url': use http:// or https://",
            ));
        }
        config
            .validate()
            .map_err(|error| exception::invalid_input(error.to_string()))?;
        config.wording = Some(Wording::Sse);
        Ok(Self { config, key })
    }

    /// The engine's configuration.
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// What connections are shared by.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The URL without what may be secret.
    pub fn shown_url(&self) -> String {
        self.config.display_url()
    }
}

/// Puts `pillion.max_response_bytes` in where the options have no limits of their own.
fn limit_by_setting(config: &mut Map<String, Value>) {
    let Some(bytes) = settings::max_response_bytes() else {
        return;
    };
    let limits = config.entry("limits").or_insert_with(|| json!({}));
    if limits.as_array().is_some_and(Vec::is_empty) {
        *limits = json!({});
    }
    // What is no object is refused below.
    if let Value::Object(limits) = limits {
        for key in ["max_response_bytes", "max_event_bytes"] {
            limits.entry(key).or_insert_with(|| json!(bytes));
        }
    }
}
