use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use clap::Args;
use secrecy::ExposeSecret;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::super::error::CliError;
use super::super::mcp::credential::{from_file, from_variable};

/// The key of each setting in a request, with the option value that selects the configured default.
const DEFAULT_WORDS: [(&str, &str); 6] = [
    ("protocolVersion", "default"),
    ("requireApproval", "default"),
    ("pin", "default"),
    ("newTools", "default"),
    ("rateLimit", "none"),
    ("maxConcurrent", "default"),
];

/// The options that describe a server. Each option that serde does not skip is a member of a
/// request, under its name in camel case.
#[derive(Debug, Args, Serialize)]
#[command(next_help_heading = "Server")]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerOptions {
    /// The server's URL
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// The program to start as the server; its arguments follow --
    #[arg(long, value_name = "PROGRAM")]
    pub(super) command: Option<String>,
    /// The program's arguments
    #[arg(last = true, value_name = "ARGUMENT", requires = "command")]
    #[serde(rename = "args")]
    arguments: Vec<String>,
    /// Sets an environment variable of the program; stored encrypted
    #[arg(long, value_name = "NAME=VALUE", requires = "command")]
    #[serde(skip)]
    env: Vec<String>,
    /// Sets an environment variable of the program to the current value of this variable; stored
    /// encrypted
    #[arg(long, value_name = "NAME", requires = "command")]
    #[serde(skip)]
    env_from: Vec<String>,
    /// Forwards this variable from the sidecar's environment to the program
    #[arg(long, value_name = "NAME", requires = "command")]
    inherit_env: Vec<String>,
    /// The working directory of the program
    #[arg(long, value_name = "DIRECTORY", requires = "command")]
    cwd: Option<String>,
    /// A description of the server
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The transport: auto, streamable_http, legacy_sse, post_sse, get_sse, http, websocket
    #[arg(long, value_name = "TRANSPORT")]
    transport: Option<String>,
    /// Whether a connection starts with initialize: auto, never
    #[arg(long, value_name = "WHETHER")]
    handshake: Option<String>,
    /// The MCP protocol revision offered in the handshake, such as 2025-06-18; or default, for the
    /// newest
    #[arg(long, value_name = "REVISION")]
    protocol_version: Option<String>,
    /// Sends the bearer token from this environment variable; stored encrypted
    #[arg(long, value_name = "VARIABLE", conflicts_with = "bearer_file")]
    #[serde(skip)]
    bearer_env: Option<String>,
    /// Sends the bearer token from this file; stored encrypted
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    bearer_file: Option<PathBuf>,
    /// Removes the credential
    #[arg(long, conflicts_with_all = ["bearer_env", "bearer_file"])]
    #[serde(skip)]
    no_authentication: bool,
    /// Sends a header with every request; stored encrypted. For a secret, use --header-env
    #[arg(long = "header", value_name = "NAME:VALUE")]
    #[serde(skip)]
    headers: Vec<String>,
    /// Sends a header with the value of an environment variable; stored encrypted
    #[arg(long = "header-env", value_name = "NAME:VARIABLE")]
    #[serde(skip)]
    headers_env: Vec<String>,
    /// Timeout of one operation, in milliseconds: 1000 to 300000
    #[arg(long, value_name = "MS")]
    #[serde(rename = "timeout")]
    timeout_ms: Option<u64>,
    /// How often a failed request for the server's tools is repeated immediately: 0 to 5
    #[arg(long, value_name = "N")]
    retry_attempts: Option<u64>,
    /// The prefix of the names of the server's tools
    #[arg(long, value_name = "PREFIX")]
    tool_prefix: Option<String>,
    /// Whether calls of the server's tools need approval: never, trusted-only, always; or default,
    /// for the policy of the configuration
    #[arg(long, value_name = "POLICY")]
    require_approval: Option<String>,
    /// How to treat a tool of the server whose definition has changed: off, warn, block; or
    /// default, for the setting of the configuration
    #[arg(long, value_name = "POLICY")]
    pin: Option<String>,
    /// How to treat a tool that the server adds later: accept, block; or default, for the setting
    /// of the configuration
    #[arg(long, value_name = "POLICY")]
    new_tools: Option<String>,
    /// The rate limit of one user for all tools of the server together, as in
    /// per_minute=10,per_hour=100,per_day=500, where each part is optional; or none, for no limit
    #[arg(long, value_name = "LIMIT", value_parser = parse_rate_limit)]
    rate_limit: Option<Value>,
    /// Maximum number of concurrent calls of the server's tools; or default, for the limit of the
    /// configuration
    #[arg(long, value_name = "N", value_parser = parse_max_concurrent)]
    max_concurrent: Option<Value>,
    /// The credential that calls use: shared (the server's own), per_user, user_or_shared
    #[arg(long, value_name = "WHOSE")]
    credential: Option<String>,
}

impl ServerOptions {
    pub(super) fn has_address(&self) -> bool {
        self.url.is_some() || self.command.is_some()
    }

    /// Returns the options as keys of a request.
    pub(super) fn to_request_keys(&self) -> Result<Map<String, Value>, CliError> {
        let mut keys = match json!(self) {
            Value::Object(keys) => keys,
            _ => Map::new(),
        };
        keys.retain(|_, value| !value.is_null() && *value != json!([]));
        // A value of null in a request selects the configured default.
        for (key, default_name) in DEFAULT_WORDS {
            if let Some(value) = keys.get_mut(key).filter(|value| **value == default_name) {
                *value = Value::Null;
            }
        }
        for (key, value) in [
            ("authentication", self.read_authentication()?),
            ("headers", self.read_headers()?),
            ("env", self.read_environment()?),
        ] {
            keys.extend(value.map(|value| (key.to_owned(), value)));
        }
        Ok(keys)
    }

    fn read_authentication(&self) -> Result<Option<Value>, CliError> {
        let token = match (&self.bearer_env, &self.bearer_file) {
            (Some(variable), _) => from_variable(variable),
            (None, Some(path)) => from_file(path),
            (None, None) => {
                return Ok(self.no_authentication.then(|| json!({"type": "none"})));
            }
        };
        let authentication = json!({"type": "bearer", "token": token?.expose_secret()});
        Ok(Some(authentication))
    }

    fn read_headers(&self) -> Result<Option<Value>, CliError> {
        let mut headers = Map::new();
        for header in &self.headers {
            let (name, value) = split_pair(header, ':', "--header NAME:VALUE")?;
            headers.insert(name, value.into());
        }
        for header in &self.headers_env {
            let (name, variable) = split_pair(header, ':', "--header-env NAME:VARIABLE")?;
            let value = from_variable(&variable)?;
            headers.insert(name, value.expose_secret().into());
        }
        Ok((!headers.is_empty()).then(|| headers.into()))
    }

    fn read_environment(&self) -> Result<Option<Value>, CliError> {
        let mut variables = Map::new();
        for variable in &self.env {
            let (name, value) = split_pair(variable, '=', "--env NAME=VALUE")?;
            variables.insert(name, value.into());
        }
        for name in &self.env_from {
            let value = from_variable(name)?;
            variables.insert(name.clone(), value.expose_secret().into());
        }
        Ok((!variables.is_empty()).then(|| variables.into()))
    }
}

/// Parses the maximum number of concurrent calls.
fn parse_max_concurrent(text: &str) -> Result<Value, &'static str> {
    if text == "default" {
        return Ok(text.into());
    }
    let parse_result: Result<NonZeroUsize, _> = text.parse();
    let number = parse_result.map_err(|_| "expected a number of 1 or more, or default")?;
    Ok(number.get().into())
}

/// Parses a rate limit into the JSON object of a request. Omitted windows are null, so that a
/// change of the server removes their limits.
fn parse_rate_limit(text: &str) -> Result<Value, &'static str> {
    const RATE_LIMIT_ERROR: &str = "expected one or more of per_minute=N, per_hour=N and per_day=N, \
        separated by commas, with numbers of 1 or more; or none";
    if text == "none" {
        return Ok(text.into());
    }
    let mut rate_limit = json!({"perMinute": null, "perHour": null, "perDay": null});
    for window in text.split(',') {
        let (name, calls) = window.split_once('=').ok_or(RATE_LIMIT_ERROR)?;
        let key = match name {
            "per_minute" => "perMinute",
            "per_hour" => "perHour",
            "per_day" => "perDay",
            _ => return Err(RATE_LIMIT_ERROR),
        };
        let max_calls: NonZeroU32 = calls.parse().map_err(|_| RATE_LIMIT_ERROR)?;
        rate_limit[key] = max_calls.get().into();
    }
    Ok(rate_limit)
}

/// Splits a text at a separator. The error message does not contain the text, which may be a
/// secret.
fn split_pair(text: &str, separator: char, form: &str) -> Result<(String, String), CliError> {
    let pair = text.split_once(separator);
    let (name, value) =
        pair.ok_or_else(|| CliError::Usage(format!("invalid option: expected {form}")))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
