mod wording;

use std::sync::Arc;
use std::time::Duration;

use pillion_core::mcp::{Authentication, OAuthConfig, ServerConfig, Wording};
use serde_json::{Map, Value, json};

use crate::classes::tool_definition::seconds;
use crate::zend::Failure;
use crate::{exception, runtime, settings};

pub use wording::without_value;
use wording::{in_words_of_php, invalid, unknown};

/// An MCP server as PHP code configures it.
pub struct Server {
    config: ServerConfig,
    /// The whole configuration as text, credentials too: two clients share a connection
    /// only if it is the same. Never shown.
    key: String,
    /// Whether the label is the program's own.
    is_labelled: bool,
}

/// Whose server it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// `MCPSSEClient`: `http` and `https` alone, errors worded as M2 has them.
    SseClient,
    /// `McpClient`: WebSocket and programs too. Its authentication may be the option `oauth`.
    Client { has_oauth: bool },
}

/// Options that are maps.
const MAPS: [&str; 4] = ["env", "headers", "limits", "egress"];

/// Options that hold credentials, or may.
const SECRET: [&str; 5] = ["authentication", "oauth", "headers", "env", "api_key"];

/// How long an operation may take where neither the client nor a setting says so.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The options of an `McpClient` that have an argument of their own in `MCPSSEClient`.
const ARGUMENTS: [(&str, &str); 3] = [
    ("url", "serverUrl"),
    ("timeout", "timeout"),
    ("api_key", "apiKey"),
];

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
    ) -> Result<Arc<Self>, Failure> {
        Self::labelled(None, url, timeout, api_key, options)
    }

    /// Reads a server entry as S4 has it; `None` without a URL.
    ///
    /// # Errors
    /// Same as [`new`](Self::new).
    pub fn of_entry(entry: &Value) -> Result<Option<Arc<Self>>, Failure> {
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

    /// Reads the arguments of `McpClient::__construct`: a URL, or an array with `url` or
    /// `command`; in that array or beside it the options.
    ///
    /// # Errors
    /// An `InvalidInputException` that names the option.
    pub fn of_client(server: Value, options: Value) -> Result<Arc<Self>, Failure> {
        let mut entry = match server {
            Value::String(url) => Map::from_iter([("url".to_owned(), Value::String(url))]),
            server => named(server, "server")?,
        };
        for (key, value) in named(options, "options")? {
            if entry.insert(key.clone(), value).is_some() {
                return Err(Self::given_twice(&key));
            }
        }
        let of = Of::Client {
            has_oauth: entry.contains_key("oauth"),
        };
        refuse_milliseconds(&entry, of)?;
        command_list(&mut entry)?;
        let timeout = match entry.remove("timeout") {
            None | Some(Value::Null) => None,
            Some(timeout) => Some(
                timeout
                    .as_f64()
                    .ok_or_else(|| invalid("timeout", "a number of seconds"))?,
            ),
        };
        put_timeout(&mut entry, timeout)?;
        match entry.remove("api_key") {
            None | Some(Value::Null) => {}
            Some(Value::String(key)) => put_api_key(&mut entry, &key)?,
            Some(_) => return Err(invalid("api_key", "a string")),
        }
        if let Some(oauth) = entry.remove("oauth") {
            put_oauth(&mut entry, oauth)?;
        }
        Self::known(entry, of)
    }

    /// The failure for an option that both of the arguments of an `McpClient` have.
    pub fn given_twice(key: &str) -> Failure {
        exception::invalid_input(format!(
            "The option '{key}' is given twice: with the server and in the options"
        ))
    }

    fn labelled(
        label: Option<&str>,
        url: &str,
        timeout: Option<f64>,
        api_key: Option<&str>,
        options: Value,
    ) -> Result<Arc<Self>, Failure> {
        let mut entry = named(options, "options")?;
        let is_given = |(key, _): &&(&str, &str)| entry.contains_key(*key);
        if let Some((key, argument)) = ARGUMENTS.iter().find(is_given) {
            return Err(invalid(key, format!("it is the argument ${argument}")));
        }
        refuse_milliseconds(&entry, Of::SseClient)?;
        if let Some(key) = api_key {
            put_api_key(&mut entry, key)?;
        }
        put_timeout(&mut entry, timeout)?;
        entry.insert("url".to_owned(), json!(url));
        if let Some(label) = label {
            entry.insert("label".to_owned(), json!(label));
        }
        Self::known(entry, Of::SseClient)
    }

    /// The server of an entry, which is read once: each request of a worker comes with it again.
    fn known(mut entry: Map<String, Value>, of: Of) -> Result<Arc<Self>, Failure> {
        limit_by_setting(&mut entry);
        let text = Value::Object(entry.clone());
        // Who words errors in another way has another connection.
        let key = match of {
            Of::SseClient => format!("sse {text}"),
            Of::Client { .. } => text.to_string(),
        };
        runtime::mcp_server(key, |key| Self::read(entry, of, key))
    }

    /// Reads an entry as the engine has it, with `allow_http`, and without need of a label.
    fn read(mut entry: Map<String, Value>, of: Of, key: &str) -> Result<Self, Failure> {
        let is_labelled = entry.contains_key("label");
        if !is_labelled {
            entry.insert("label".to_owned(), json!("mcp"));
        }
        let allow_http = match entry.remove("allow_http") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(allow)) => allow,
            Some(_) => return Err(invalid("allow_http", "true or false")),
        };
        for key in MAPS {
            // PHP writes an empty map as `[]`.
            if entry
                .get(key)
                .and_then(Value::as_array)
                .is_some_and(Vec::is_empty)
            {
                entry.remove(key);
            }
        }
        let mut config: ServerConfig = serde_path_to_error::deserialize(Value::Object(entry))
            .map_err(|error| {
                let path = error.path().to_string();
                let option = path.split(['.', '[']).next().unwrap_or_default();
                let why = error.inner().to_string();
                if why.starts_with(&format!("unknown field `{path}`")) {
                    return unknown(option, of);
                }
                let why = without_value(SECRET.contains(&option), &why);
                match path.strip_prefix("authentication") {
                    Some(rest) if of == (Of::Client { has_oauth: true }) => {
                        invalid(&format!("oauth{rest}"), why)
                    }
                    _ if path == "." => exception::invalid_input(why),
                    _ => invalid(&path, why),
                }
            })?;
        if let (true, Some(url)) = (allow_http, config.url().cloned()) {
            config.egress.allow_http_to(&url);
        }
        let is_http = config
            .url()
            .is_some_and(|url| url.scheme().starts_with("http"));
        if of == Of::SseClient && !is_http {
            return Err(invalid("url", "use http:// or https://"));
        }
        config
            .validate()
            .map_err(|error| exception::invalid_input(in_words_of_php(&error)))?;
        if !is_labelled && config.url().is_some() {
            // Approvals and limits go by the label: two servers must not share one.
            config.label = config.display_url();
        }
        config.wording = (of == Of::SseClient).then_some(Wording::Sse);
        Ok(Self {
            config,
            key: key.to_owned(),
            is_labelled,
        })
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

    /// What the program calls the server, or else where it is.
    pub fn shown_name(&self) -> String {
        if self.is_labelled {
            self.config.label.clone()
        } else {
            self.shown_url()
        }
    }

    /// How tokens are obtained, if they are.
    pub fn oauth(&self) -> Option<&OAuthConfig> {
        match &self.config.authentication {
            Authentication::OAuth(oauth) => Some(oauth),
            _ => None,
        }
    }
}

/// An array with names as keys.
fn named(value: Value, what: &str) -> Result<Map<String, Value>, Failure> {
    match value {
        Value::Object(entries) => Ok(entries),
        Value::Array(items) if items.is_empty() => Ok(Map::new()),
        _ => Err(exception::invalid_input(format!(
            "The {what} must be an array with names as keys"
        ))),
    }
}

/// A command may be a list: the program and its arguments.
fn command_list(entry: &mut Map<String, Value>) -> Result<(), Failure> {
    let Some(Value::Array(words)) = entry.get_mut("command") else {
        return Ok(());
    };
    let mut words = std::mem::take(words).into_iter();
    let program = words.next().filter(Value::is_string);
    let program =
        program.ok_or_else(|| invalid("command", "a program, or a list that begins with one"))?;
    let words: Vec<Value> = words.collect();
    entry.insert("command".to_owned(), program);
    if !words.is_empty() && entry.insert("args".to_owned(), words.into()).is_some() {
        return Err(invalid("args", "the command is a list that has arguments"));
    }
    Ok(())
}

fn put_timeout(entry: &mut Map<String, Value>, timeout: Option<f64>) -> Result<(), Failure> {
    let timeout = match timeout {
        Some(timeout) => seconds("timeout", timeout)?,
        None => settings::timeout().unwrap_or(TIMEOUT),
    };
    let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    if timeout_ms == 0 {
        return Err(invalid("timeout", "it must be at least 0.001 seconds"));
    }
    entry.insert("timeout_ms".to_owned(), json!(timeout_ms));
    Ok(())
}

fn put_api_key(entry: &mut Map<String, Value>, key: &str) -> Result<(), Failure> {
    if entry.contains_key("authentication") {
        return Err(exception::invalid_input(
            "Give either an API key or the option 'authentication'",
        ));
    }
    let bearer = json!({"type": "bearer", "token": key});
    entry.insert("authentication".to_owned(), bearer);
    Ok(())
}

/// The keys of `oauth` are those of the authentication of that type.
fn put_oauth(entry: &mut Map<String, Value>, oauth: Value) -> Result<(), Failure> {
    let mut oauth = match oauth {
        Value::Null | Value::Bool(false) => return Ok(()),
        Value::Bool(true) => Map::new(),
        oauth => named(oauth, "option 'oauth'")?,
    };
    if entry.contains_key("authentication") {
        return Err(exception::invalid_input(
            "Give one of the options 'oauth', 'api_key' and 'authentication'",
        ));
    }
    oauth.insert("type".to_owned(), json!("oauth"));
    entry.insert("authentication".to_owned(), Value::Object(oauth));
    Ok(())
}

/// The engine's name for the time: here it is `timeout`, in seconds.
fn refuse_milliseconds(entry: &Map<String, Value>, of: Of) -> Result<(), Failure> {
    if entry.contains_key("timeout_ms") {
        return Err(unknown("timeout_ms", of));
    }
    Ok(())
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
