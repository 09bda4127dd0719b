mod error_messages;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillion_mcp_client::{Authentication, MessageStyle, OAuthConfig, ServerConfig};
use serde_json::{Map, Value, json};

use crate::duration::parse_seconds;
use crate::exception;
use crate::runtime::{LruCache, lock};
use crate::settings;
use crate::zend::{Failure, Result};

pub use error_messages::redact_message;
use error_messages::{invalid_option, unknown_option, with_php_option_names};

/// An MCP server as PHP code configures it.
pub struct Server {
    config: ServerConfig,
    /// The whole configuration as text, including credentials. Clients whose configurations have
    /// the same text can share a connection. The text is never shown to users.
    key: String,
    /// Whether the application has set the server's label.
    has_label: bool,
}

/// The PHP class of the clients that use a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClientClass {
    /// `MCPSSEClient`, which supports only `http` and `https` and has its own error messages.
    SseClient,
    /// `McpClient`, which, unlike `MCPSSEClient`, supports WebSocket, local programs and the option
    /// `oauth`.
    Client { has_oauth: bool },
}

/// The options whose values are maps.
const MAP_OPTIONS: [&str; 4] = ["env", "headers", "limits", "egress"];

/// The options that contain or may contain credentials.
const SECRET_OPTIONS: [&str; 5] = ["authentication", "oauth", "headers", "env", "api_key"];

/// Default timeout of an operation, if neither the client nor a setting specifies one.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The options of `McpClient` for which `MCPSSEClient` has separate arguments.
const SSE_CLIENT_ARGUMENTS: [(&str, &str); 3] = [
    ("url", "serverUrl"),
    ("timeout", "timeout"),
    ("api_key", "apiKey"),
];

impl Server {
    /// Creates a server from the arguments of `MCPSSEClient::__construct`.
    ///
    /// # Errors
    /// An `InvalidInputException` that names the invalid option.
    pub fn new(
        url: &str,
        timeout: Option<f64>,
        api_key: Option<&str>,
        options: Value,
    ) -> Result<Arc<Self>> {
        Self::from_arguments(None, url, timeout, api_key, options)
    }

    /// Creates a server from an entry in HAWKI's format. Returns `None` for an entry without a URL.
    ///
    /// # Errors
    /// The same errors as [`new`](Self::new).
    pub fn from_entry(entry: &Value) -> Result<Option<Arc<Self>>> {
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
        Self::from_arguments(text("server_label"), url, timeout, text("api_key"), options).map(Some)
    }

    /// Creates a server from the arguments of `McpClient::__construct`: a URL, or an array with
    /// `url` or `command`. The options are in this array or in the second argument.
    ///
    /// # Errors
    /// An `InvalidInputException` that names the invalid option.
    pub fn from_client_arguments(server: Value, options: Value) -> Result<Arc<Self>> {
        let mut entry = match server {
            Value::String(url) => Map::from_iter([("url".to_owned(), Value::String(url))]),
            server => parse_map(server, "server")?,
        };
        for (key, value) in parse_map(options, "options")? {
            if entry.insert(key.clone(), value).is_some() {
                return Err(Self::duplicate_option(&key));
            }
        }
        let class = ClientClass::Client {
            has_oauth: entry.contains_key("oauth"),
        };
        reject_milliseconds(&entry, class)?;
        split_command_list(&mut entry)?;
        let invalid_timeout = || invalid_option("timeout", "a number of seconds");
        let timeout = match entry.remove("timeout") {
            None | Some(Value::Null) => None,
            Some(timeout) => Some(timeout.as_f64().ok_or_else(invalid_timeout)?),
        };
        set_timeout(&mut entry, timeout)?;
        match entry.remove("api_key") {
            None | Some(Value::Null) => {}
            Some(Value::String(key)) => set_api_key(&mut entry, &key)?,
            Some(_) => return Err(invalid_option("api_key", "a string")),
        }
        if let Some(oauth) = entry.remove("oauth") {
            set_oauth(&mut entry, oauth)?;
        }
        Self::find_or_parse(entry, class)
    }

    /// Returns the failure for an option that `$server` and `$options` of `McpClient` both contain.
    pub fn duplicate_option(key: &str) -> Failure {
        exception::invalid_input(format!(
            "The option '{key}' is set twice: in $server and in $options"
        ))
    }

    fn from_arguments(
        label: Option<&str>,
        url: &str,
        timeout: Option<f64>,
        api_key: Option<&str>,
        options: Value,
    ) -> Result<Arc<Self>> {
        let mut entry = parse_map(options, "options")?;
        let is_in_entry = |(key, _): &&(&str, &str)| entry.contains_key(*key);
        if let Some((key, argument)) = SSE_CLIENT_ARGUMENTS.iter().find(is_in_entry) {
            let message = format!("pass the argument ${argument} instead");
            return Err(invalid_option(key, message));
        }
        reject_milliseconds(&entry, ClientClass::SseClient)?;
        if let Some(key) = api_key {
            set_api_key(&mut entry, key)?;
        }
        set_timeout(&mut entry, timeout)?;
        entry.insert("url".to_owned(), json!(url));
        if let Some(label) = label {
            entry.insert("label".to_owned(), json!(label));
        }
        Self::find_or_parse(entry, ClientClass::SseClient)
    }

    /// Returns the server of an entry. Each entry is parsed only once, because every request of a
    /// PHP worker passes the entry again.
    fn find_or_parse(mut entry: Map<String, Value>, class: ClientClass) -> Result<Arc<Self>> {
        apply_response_limit(&mut entry);
        let entry_json = Value::Object(entry.clone());
        // The cache key contains the client class, because the error messages of the two classes
        // differ.
        let key = match class {
            ClientClass::SseClient => format!("sse {entry_json}"),
            ClientClass::Client { .. } => entry_json.to_string(),
        };
        static CACHED_SERVERS: Mutex<LruCache<String, Arc<Server>>> = Mutex::new(LruCache::new(32));
        if let Some(server) = lock(&CACHED_SERVERS).get(&key) {
            return Ok(Arc::clone(server));
        }
        let server = Arc::new(Self::parse(entry, class, &key)?);
        lock(&CACHED_SERVERS).add(key, Arc::clone(&server));
        Ok(server)
    }

    /// Creates a server from an entry in the engine's format. Plain HTTP is permitted, and the
    /// label is optional.
    fn parse(mut entry: Map<String, Value>, class: ClientClass, key: &str) -> Result<Self> {
        let has_label = entry.contains_key("label");
        if !has_label {
            entry.insert("label".to_owned(), json!("mcp"));
        }
        let allow_http = match entry.remove("allow_http") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(is_allowed)) => is_allowed,
            Some(_) => return Err(invalid_option("allow_http", "true or false")),
        };
        for option in MAP_OPTIONS {
            // An empty list is accepted as an empty map, because PHP encodes an empty map as `[]`.
            if entry.get(option).is_some_and(|value| *value == json!([])) {
                entry.remove(option);
            }
        }
        let mut config: ServerConfig = serde_path_to_error::deserialize(Value::Object(entry))
            .map_err(|error| {
                let path = error.path().to_string();
                let option = path.split(['.', '[']).next().unwrap_or_default();
                let message = error.inner().to_string();
                if message.starts_with(&format!("unknown field `{path}`")) {
                    return unknown_option(option, class);
                }
                let reason = redact_message(SECRET_OPTIONS.contains(&option), &message);
                match path.strip_prefix("authentication") {
                    Some(rest) if class == (ClientClass::Client { has_oauth: true }) => {
                        invalid_option(&format!("oauth{rest}"), reason)
                    }
                    _ if path == "." => exception::invalid_input(reason),
                    _ => invalid_option(&path, reason),
                }
            })?;
        if let (true, Some(url)) = (allow_http, config.url().cloned()) {
            config.egress.allow_http_for(&url);
        }
        let is_http = config
            .url()
            .is_some_and(|url| url.scheme().starts_with("http"));
        if class == ClientClass::SseClient && !is_http {
            return Err(invalid_option("url", "use http:// or https://"));
        }
        config
            .validate()
            .map_err(|error| exception::invalid_input(with_php_option_names(&error)))?;
        if !has_label && config.url().is_some() {
            // A server without a label gets its address as the label, because approvals and limits
            // apply per label.
            config.label = config.display_url();
        }
        config.message_style = (class == ClientClass::SseClient).then_some(MessageStyle::Sse);
        Ok(Self {
            config,
            key: key.to_owned(),
            has_label,
        })
    }

    /// Returns the configuration of the MCP client.
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// Returns the key by which connections are shared.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the server's URL without its secret parts.
    pub fn display_url(&self) -> String {
        self.config.display_url()
    }

    /// Returns the label that the application has set, or else the server's address.
    pub fn display_name(&self) -> String {
        if self.has_label {
            self.config.label.clone()
        } else {
            self.display_url()
        }
    }

    /// Returns the OAuth configuration of the server; `None` if the server does not use OAuth.
    pub fn oauth(&self) -> Option<&OAuthConfig> {
        match &self.config.authentication {
            Authentication::OAuth(oauth) => Some(oauth),
            _ => None,
        }
    }
}

/// Returns the entries of an option that is a map.
fn parse_map(value: Value, value_name: &str) -> Result<Map<String, Value>> {
    match value {
        Value::Object(entries) => Ok(entries),
        Value::Array(items) if items.is_empty() => Ok(Map::new()),
        _ => Err(exception::invalid_input(format!(
            "The {value_name} must be an array with string keys"
        ))),
    }
}

/// Splits a command, given as a list, into the program and its arguments.
fn split_command_list(entry: &mut Map<String, Value>) -> Result<()> {
    let Some(Value::Array(command)) = entry.get_mut("command") else {
        return Ok(());
    };
    let mut command_words = std::mem::take(command).into_iter();
    let program = (command_words.next().filter(Value::is_string)).ok_or_else(|| {
        invalid_option("command", "a program, or a list that begins with a program")
    })?;
    let arguments: Vec<Value> = command_words.collect();
    entry.insert("command".to_owned(), program);
    if !arguments.is_empty() && entry.insert("args".to_owned(), arguments.into()).is_some() {
        let message = "'command' is a list that contains arguments: omit 'args'";
        return Err(invalid_option("args", message));
    }
    Ok(())
}

fn set_timeout(entry: &mut Map<String, Value>, timeout: Option<f64>) -> Result<()> {
    let duration = match timeout {
        Some(seconds) => parse_seconds("timeout", seconds)?,
        None => settings::timeout().unwrap_or(DEFAULT_TIMEOUT),
    };
    let timeout_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if timeout_ms == 0 {
        let message = "at least 0.001 seconds are required";
        return Err(invalid_option("timeout", message));
    }
    entry.insert("timeout_ms".to_owned(), json!(timeout_ms));
    Ok(())
}

fn set_api_key(entry: &mut Map<String, Value>, key: &str) -> Result<()> {
    if entry.contains_key("authentication") {
        return Err(exception::invalid_input(
            "Pass only one of an API key and the option 'authentication'",
        ));
    }
    let authentication = json!({"type": "bearer", "token": key});
    entry.insert("authentication".to_owned(), authentication);
    Ok(())
}

/// Converts the option `oauth` to the option `authentication` with the type `oauth`.
fn set_oauth(entry: &mut Map<String, Value>, oauth: Value) -> Result<()> {
    let mut authentication = match oauth {
        Value::Null | Value::Bool(false) => return Ok(()),
        Value::Bool(true) => Map::new(),
        keys => parse_map(keys, "option 'oauth'")?,
    };
    if entry.contains_key("authentication") {
        return Err(exception::invalid_input(
            "Pass only one of the options 'oauth', 'api_key' and 'authentication'",
        ));
    }
    authentication.insert("type".to_owned(), json!("oauth"));
    entry.insert("authentication".to_owned(), Value::Object(authentication));
    Ok(())
}

/// Rejects the engine's option `timeout_ms`: the PHP classes have `timeout`, in seconds.
fn reject_milliseconds(entry: &Map<String, Value>, class: ClientClass) -> Result<()> {
    if entry.contains_key("timeout_ms") {
        return Err(unknown_option("timeout_ms", class));
    }
    Ok(())
}

/// Inserts the limit `pillion.max_response_bytes` if the options have no response limit.
fn apply_response_limit(entry: &mut Map<String, Value>) {
    let Some(bytes) = settings::max_response_bytes() else {
        return;
    };
    let limits = entry.entry("limits").or_insert_with(|| json!({}));
    if limits.as_array().is_some_and(Vec::is_empty) {
        *limits = json!({});
    }
    // An option `limits` that is not an object is left unchanged here and rejected by the parser
    // later.
    if let Value::Object(limits) = limits {
        for key in ["max_response_bytes", "max_event_bytes"] {
            limits.entry(key).or_insert_with(|| json!(bytes));
        }
    }
}
