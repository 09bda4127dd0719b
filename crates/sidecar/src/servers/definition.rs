//! The configuration of a server in the REST API and the store, split into public members and
//! credentials.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use pillion_core::executor::ApprovalPolicy;
use pillion_core::tool::ToolName;
use pillion_mcp_client::{
    Authentication, Endpoint, Handshake, ProtocolVersion, ServerConfig, StdioCommand, TransportKind,
};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::ServerError;
use pillion_config::{
    CredentialPolicy, NewToolPolicy, PinPolicy, RateLimitSection, server_name_error,
};
use pillion_gateway::credentials::{CredentialNote, Credentials, origin_of};

/// Maximum length of a server's name, in characters.
const MAX_NAME_LEN: usize = 100;

/// The public members of a server, stored as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Definition {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    #[serde(default)]
    pub(crate) transport: TransportKind,
    #[serde(default, skip_serializing_if = "is_auto")]
    pub(crate) handshake: Handshake,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) protocol_version: Option<ProtocolVersion>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    args: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    inherit_env: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    /// The timeout of a request, in milliseconds.
    #[serde(default = "default_timeout")]
    pub(crate) timeout: u64,
    #[serde(default = "default_attempts")]
    pub(crate) retry_attempts: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_prefix: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) require_approval: Option<ApprovalPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pin: Option<PinPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) new_tools: Option<NewToolPolicy>,
    #[serde(
        default,
        deserialize_with = "object_or_null",
        skip_serializing_if = "Option::is_none"
    )]
    rate_limit: Option<RateLimit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_concurrent: Option<NonZeroUsize>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) credential: CredentialPolicy,
}

/// The limit of calls of one user to all tools of a server: [`RateLimitSection`] with the member
/// names of the REST API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct RateLimit {
    #[serde(skip_serializing_if = "Option::is_none")]
    per_minute: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_hour: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_day: Option<NonZeroU32>,
}

/// Accepts only an object or null: serde would also read a struct from an array.
fn object_or_null<'de, D: Deserializer<'de>>(from: D) -> Result<Option<RateLimit>, D::Error> {
    struct ObjectOrNull;
    impl<'de> Visitor<'de> for ObjectOrNull {
        type Value = Option<RateLimit>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            RateLimit::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }
    from.deserialize_any(ObjectOrNull)
}

fn is_auto(handshake: &Handshake) -> bool {
    *handshake == Handshake::default()
}

fn is_default(credential: &CredentialPolicy) -> bool {
    !credential.uses_user_credentials()
}

fn default_timeout() -> u64 {
    30_000
}

fn default_attempts() -> u8 {
    3
}

/// All members of a server in a request. The name, `enabled` and the credentials are read
/// separately.
const MEMBERS: [&str; 23] = [
    "name",
    "description",
    "transport",
    "handshake",
    "protocolVersion",
    "url",
    "headers",
    "authentication",
    "command",
    "args",
    "env",
    "inheritEnv",
    "cwd",
    "timeout",
    "retryAttempts",
    "enabled",
    "toolPrefix",
    "requireApproval",
    "pin",
    "newTools",
    "rateLimit",
    "maxConcurrent",
    "credential",
];

/// The JSON in the column `configuration` of the store.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) definition: Definition,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) credentials: Option<CredentialNote>,
}

impl Stored {
    pub(super) fn parse(configuration: &str) -> Result<Self, ServerError> {
        serde_json::from_str(configuration).map_err(|_| ServerError::Unreadable)
    }
}

impl Definition {
    /// Parses the public members of a server.
    pub(super) fn parse(mut keys: Map<String, Value>) -> Result<Self, ServerError> {
        // For all members, null means that the member is missing.
        keys.retain(|_, value| !value.is_null());
        if let Some(unknown) = keys.keys().find(|key| !MEMBERS.contains(&key.as_str())) {
            let members = MEMBERS.map(|member| format!("`{member}`")).join(", ");
            let message = format!("unknown field `{unknown}`, expected one of {members}");
            return Err(ServerError::invalid(unknown, message));
        }
        let definition: Self = serde_path_to_error::deserialize(Value::Object(keys)).map_err(
            |error: serde_path_to_error::Error<serde_json::Error>| {
                let key = error.path().to_string();
                let key = if key == "." { "body".to_owned() } else { key };
                ServerError::invalid(key, error.into_inner().to_string())
            },
        )?;
        if !(1_000..=300_000).contains(&definition.timeout) {
            let message = "must be between 1000 and 300000 milliseconds";
            return Err(ServerError::invalid("timeout", message));
        }
        if definition.retry_attempts > 5 {
            let message = "must be between 0 and 5";
            return Err(ServerError::invalid("retryAttempts", message));
        }
        if let Some(prefix) = definition.tool_prefix.as_deref()
            && !prefix.is_empty()
            && ToolName::new(prefix).is_err()
        {
            let message = "must have at most 128 letters, digits, '_' and '-', and start with a \
                           letter or '_'";
            return Err(ServerError::invalid("toolPrefix", message));
        }
        Ok(definition)
    }

    /// Returns the members as in a request.
    pub(super) fn keys(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(keys)) => keys,
            _ => Map::new(),
        }
    }

    pub(crate) fn is_program(&self) -> bool {
        self.command.is_some()
    }

    /// Returns where the server's credentials are sent: the address of a URL, or the program.
    pub(super) fn place(&self) -> String {
        let url = self
            .url
            .as_deref()
            .and_then(|url| url::Url::parse(url).ok());
        match url {
            Some(url) => origin_of(&url),
            None => format!("program {:?}", self.command),
        }
    }

    pub(super) fn tool_prefix(&self) -> Option<String> {
        self.tool_prefix.clone()
    }

    pub(super) fn rate_limit(&self) -> Option<RateLimitSection> {
        let limit = self.rate_limit?;
        Some(RateLimitSection {
            per_minute: limit.per_minute,
            per_hour: limit.per_hour,
            per_day: limit.per_day,
        })
    }

    /// Returns the configuration for the client. [`ServerConfig::validate`] checks whether the
    /// server is allowed.
    pub(super) fn server(
        &self,
        name: &str,
        credentials: &Credentials,
    ) -> Result<ServerConfig, ServerError> {
        let mut server = match (&self.url, &self.command) {
            (Some(url), None) if self.has_program_keys(credentials) => {
                let _ = url;
                let message = "args, env, inheritEnv and cwd are only allowed with a command";
                return Err(ServerError::invalid("url", message));
            }
            (Some(url), None) => ServerConfig::new(name, url)?,
            (None, Some(_)) if self.credential.uses_user_credentials() => {
                let message = "a server with a command only supports the credential \"shared\"";
                return Err(ServerError::invalid("credential", message));
            }
            (None, Some(command)) => {
                let mut program = StdioCommand::new(command);
                program.args.clone_from(&self.args);
                program.inherit_env.clone_from(&self.inherit_env);
                program.cwd = self.cwd.as_ref().map(Into::into);
                program.env = credentials.texts("env")?.into_iter().collect();
                ServerConfig::of_command(name, program)
            }
            _ => return Err(pillion_mcp_client::ServerConfigError::Endpoint.into()),
        };
        server.description = self.description.clone().unwrap_or_default();
        server.transport = self.transport;
        server.handshake = self.handshake;
        server.protocol_version = self.protocol_version;
        server.timeout = Duration::from_millis(self.timeout);
        server.authentication = credentials.authentication()?;
        server.headers = credentials.texts("headers")?.into_iter().collect();
        Ok(server)
    }

    fn has_program_keys(&self, credentials: &Credentials) -> bool {
        !self.args.is_empty()
            || !self.inherit_env.is_empty()
            || self.cwd.is_some()
            || credentials.0.contains_key("env")
    }
}

/// Removes the name from the members of a server, and validates it.
pub(super) fn take_name(keys: &mut Map<String, Value>) -> Result<Option<String>, ServerError> {
    let name = match keys.remove("name") {
        None => return Ok(None),
        Some(Value::String(name)) => name,
        Some(_) => return Err(ServerError::invalid("name", "expected a string")),
    };
    let length = name.chars().count();
    if !(1..=MAX_NAME_LEN).contains(&length) || name.trim().is_empty() {
        let message = "must have between 1 and 100 characters";
        return Err(ServerError::invalid("name", message));
    }
    if let Some(problem) = server_name_error(&name) {
        return Err(ServerError::invalid("name", problem));
    }
    Ok(Some(name))
}

/// Removes `enabled` from the members of a server.
pub(super) fn take_enabled(keys: &mut Map<String, Value>) -> Result<Option<bool>, ServerError> {
    match keys.remove("enabled") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(enabled)) => Ok(Some(enabled)),
        Some(_) => Err(ServerError::invalid("enabled", "expected true or false")),
    }
}

/// Returns whether the members configure a program instead of a URL.
pub(super) fn names_program(keys: &Map<String, Value>) -> bool {
    let given = |key: &str| keys.get(key).is_some_and(|value| !value.is_null());
    given("command")
        || ["args", "env", "inheritEnv", "cwd"].into_iter().any(given)
        || keys.get("transport").and_then(Value::as_str) == Some("stdio")
}

/// Applies a JSON merge patch (RFC 7396), which replaces `authentication` as a whole.
pub(super) fn merge(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, value) in patch {
        match (target.get_mut(&key), value) {
            (_, Value::Null) => {
                target.remove(&key);
            }
            (Some(Value::Object(inner)), Value::Object(change)) if key != "authentication" => {
                merge(inner, change);
            }
            (_, value) => {
                target.insert(key, value);
            }
        }
    }
}

/// Returns the display URL or the program of a server.
pub(crate) fn address_of(server: &ServerConfig) -> (Option<String>, Option<String>) {
    match &server.endpoint {
        Endpoint::Command(command) => (None, Some(command.program.display().to_string())),
        _ => (Some(server.display_url()), None),
    }
}

/// Returns the authentication type, as in the REST API.
pub(crate) fn kind_of(authentication: &Authentication) -> &'static str {
    match authentication {
        Authentication::Bearer { .. } => "bearer",
        Authentication::ApiKey { .. } => "api-key",
        Authentication::Basic { .. } => "basic",
        Authentication::OAuth(_) => "oauth",
        _ => "none",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_is_merged_and_null_removes_members() {
        let object = |value: Value| value.as_object().cloned().unwrap();
        let mut target = object(json!({"headers": {"a": "1", "b": "2"}, "timeout": 5}));
        merge(
            &mut target,
            object(json!({"headers": {"a": null, "c": "3"}, "timeout": null})),
        );
        assert_eq!(
            Value::Object(target),
            json!({"headers": {"b": "2", "c": "3"}})
        );
    }
}
