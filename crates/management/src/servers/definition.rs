//! The definition of a server in the REST API and the store. The definition has the keys of an
//! entry of `[[mcp_servers]]`, under the names of the REST API, and is split into public members
//! and credentials.

use pillion_config::{RateLimitSection, ServerSettings, field_names, server_name_error};
use pillion_mcp_client::{Authentication, Endpoint, ServerConfig, ServerDefinition};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Result, ServerError};
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::credentials::{CredentialMetadata, Credentials, url_origin};

/// Maximum length of a server's name, in characters.
pub(super) const MAX_SERVER_NAME_CHARS: usize = 100;

/// The number of times that a failed `tools/list` request is repeated without delay, unless the
/// server's definition sets a number.
const DEFAULT_RETRY_ATTEMPTS: u8 = 3;

/// The numeric members of a stored server, each with its minimum, its maximum, and the unit in the
/// error message.
pub(super) const NUMBER_RANGES: [(&str, u64, u64, &str); 2] = [
    ("timeout", 1_000, 300_000, " milliseconds"),
    ("retryAttempts", 0, 5, ""),
];

/// The members that configure a local program as the server.
pub(super) const PROGRAM_MEMBERS: [&str; 5] = ["command", "args", "env", "inheritEnv", "cwd"];

/// The public members of a server, stored as JSON, without its name and `enabled`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>", into = "Map<String, Value>")]
pub struct Definition {
    /// The members under their names in the REST API.
    pub(super) members: Map<String, Value>,
    /// The settings for the MCP client, without name and credentials.
    client: ServerDefinition,
    pub settings: ServerSettings,
}

/// A server as stored in the column `configuration`.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct StoredServer {
    pub(super) definition: Definition,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) credentials: Option<CredentialMetadata>,
}

impl StoredServer {
    pub(super) fn parse(configuration: &str) -> Result<Self> {
        serde_json::from_str(configuration).map_err(|_| ServerError::Unreadable)
    }
}

impl TryFrom<Map<String, Value>> for Definition {
    type Error = ServerError;

    /// Parses the public members of a server.
    fn try_from(mut members: Map<String, Value>) -> Result<Self> {
        // A member that is null counts as missing.
        members.retain(|_, value| !value.is_null());
        let settings_keys = field_names::<ServerSettings>();
        let keys = [field_names::<ServerDefinition>(), settings_keys].concat();
        let mut client = to_config_keys(&members, &keys, "")?;
        for (member, min, max, unit) in NUMBER_RANGES {
            let number = members.get(member).and_then(Value::as_u64);
            if number.is_some_and(|number| !(min..=max).contains(&number)) {
                let message = format!("must be between {min} and {max}{unit}");
                return Err(ServerError::invalid(member, message));
            }
        }
        if let Some(limit) = client.get_mut("rate_limit") {
            let limit_members = limit
                .as_object()
                .ok_or_else(|| ServerError::invalid("rateLimit", "expected an object"))?;
            let keys = field_names::<RateLimitSection>();
            *limit = to_config_keys(limit_members, keys, "rateLimit.")?.into();
        }
        let mut settings = Map::new();
        settings.insert("retry_attempts".to_owned(), DEFAULT_RETRY_ATTEMPTS.into());
        for key in settings_keys {
            settings.extend(client.remove_entry(*key));
        }
        // The label stays empty here, because the store has the name in its own column.
        client.insert("label".to_owned(), "".into());
        Ok(Self {
            client: deserialize(client)?,
            settings: deserialize(settings)?,
            members,
        })
    }
}

impl From<Definition> for Map<String, Value> {
    fn from(definition: Definition) -> Self {
        definition.members
    }
}

/// Returns the REST API's name for a key of the configuration file; `None` if the REST API has no
/// such member.
pub(super) fn member_name(key: &str) -> Option<String> {
    match key {
        "token_in_query" | "limits" | "egress" | "native" => None,
        "label" => Some("name".to_owned()),
        "timeout_ms" => Some("timeout".to_owned()),
        key => {
            let mut words = key.split('_');
            let first_word = words.next().unwrap_or_default().to_owned();
            Some(words.fold(first_word, |name, word| {
                let (initial, rest) = word.split_at(1);
                name + &initial.to_uppercase() + rest
            }))
        }
    }
}

/// Renames the members of a REST API request to their keys in the configuration file, which must be
/// among `keys`. `path` is the prefix of the members' names in errors.
fn to_config_keys(
    members: &Map<String, Value>,
    keys: &[&'static str],
    path: &str,
) -> Result<Map<String, Value>> {
    let named_keys: Vec<_> = keys
        .iter()
        .filter_map(|key| Some((member_name(key)?, *key)))
        .collect();
    let to_config_key = |(member, value): (&String, &Value)| {
        let Some((_, key)) = named_keys.iter().find(|(name, _)| name == member) else {
            let names: Vec<_> = named_keys
                .iter()
                .map(|(name, _)| format!("`{name}`"))
                .collect();
            let expected = names.join(", ");
            let member = truncate_input(member);
            let message = format!("unknown field `{member}`, expected one of {expected}");
            return Err(ServerError::invalid(format!("{path}{member}"), message));
        };
        Ok(((*key).to_owned(), value.clone()))
    };
    members.iter().map(to_config_key).collect()
}

/// Deserializes public members. The error has the path of the invalid member.
fn deserialize<T: DeserializeOwned>(keys: Map<String, Value>) -> Result<T> {
    serde_path_to_error::deserialize(Value::Object(keys)).map_err(
        |error: serde_path_to_error::Error<serde_json::Error>| {
            let path = error.path().to_string();
            let members: Vec<_> = path.split('.').filter_map(member_name).collect();
            ServerError::invalid(members.join("."), error.into_inner().to_string())
        },
    )
}

impl Definition {
    pub fn is_program(&self) -> bool {
        self.client.command.is_some()
    }

    /// Returns whether the server's URL has a part that [`display_address`] does not show.
    pub(super) fn has_hidden_url_part(&self) -> bool {
        let url = self.client.url.as_ref();
        url.is_some_and(|url| url.query().is_some() || url.fragment().is_some())
    }

    /// Returns the program that the sidecar starts for the server, if any.
    pub(super) fn program(&self) -> Option<&str> {
        self.client.command.as_ref()?.to_str()
    }

    /// Returns the receiver of the server's credentials: the address of the URL, or the program.
    pub(super) fn credential_destination(&self) -> String {
        match &self.client.url {
            Some(url) => url_origin(url),
            None => format!("program {:?}", self.client.command),
        }
    }

    /// Returns the server's configuration for the MCP client. [`ServerConfig::validate`] checks
    /// whether the server is allowed.
    pub(super) fn to_server_config(
        &self,
        name: &str,
        credentials: &Credentials,
    ) -> Result<ServerConfig> {
        let mut client = self.client.clone();
        name.clone_into(&mut client.label);
        client.authentication = credentials.authentication()?;
        client.headers = credentials.secret_entries("headers")?.into_iter().collect();
        let env = credentials.secret_entries("env")?;
        client.env = (!env.is_empty()).then(|| env.into_iter().collect());
        let server = ServerConfig::try_from(client)?;
        match self.settings.find_fault(&server) {
            Some((key, message)) => {
                let member = member_name(key).unwrap_or_default();
                Err(ServerError::invalid(member, message))
            }
            None => Ok(server),
        }
    }
}

/// Removes the name from the members of a server, validates the name and returns it.
pub(super) fn take_name(keys: &mut Map<String, Value>) -> Result<Option<String>> {
    let name = match keys.remove("name") {
        None => return Ok(None),
        Some(Value::String(name)) => name,
        Some(_) => return Err(ServerError::invalid("name", "expected a string")),
    };
    let length = name.chars().count();
    if !(1..=MAX_SERVER_NAME_CHARS).contains(&length) || name.trim().is_empty() {
        let message = "must have between 1 and 100 characters";
        return Err(ServerError::invalid("name", message));
    }
    if let Some(problem) = server_name_error(&name) {
        return Err(ServerError::invalid("name", problem));
    }
    Ok(Some(name))
}

/// Removes `enabled` from the members of a server and returns its value.
pub(super) fn take_enabled(keys: &mut Map<String, Value>) -> Result<Option<bool>> {
    match keys.remove("enabled") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(enabled)) => Ok(Some(enabled)),
        Some(_) => Err(ServerError::invalid("enabled", "expected true or false")),
    }
}

/// Returns whether the members configure a program instead of a URL.
pub(super) fn has_program_members(keys: &Map<String, Value>) -> bool {
    let is_set = |key: &str| keys.get(key).is_some_and(|value| !value.is_null());
    PROGRAM_MEMBERS.into_iter().any(is_set)
        || keys.get("transport").and_then(Value::as_str) == Some("stdio")
}

/// Applies a JSON merge patch (RFC 7396), which replaces `authentication` as a whole.
pub(super) fn merge(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, value) in patch {
        match (target.get_mut(&key), value) {
            (_, Value::Null) => {
                target.remove(&key);
            }
            (Some(Value::Object(target_object)), Value::Object(change))
                if key != "authentication" =>
            {
                merge(target_object, change);
            }
            (_, value) => {
                target.insert(key, value);
            }
        }
    }
}

/// Returns the display URL or the program of a server.
pub fn display_address(server: &ServerConfig) -> (Option<String>, Option<String>) {
    match &server.endpoint {
        Endpoint::Command(command) => (None, Some(command.program.display().to_string())),
        _ => (Some(server.display_url()), None),
    }
}

/// Returns the authentication type, as in the REST API.
pub fn authentication_type(authentication: &Authentication) -> &'static str {
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
    fn errors_have_the_names_of_the_api() {
        for (members, key, expected) in [
            (json!({"timeout": 0}), "timeout", "must be between 1000"),
            (
                json!({"inheritEnv": ["A", 5]}),
                "inheritEnv[1]",
                "invalid type",
            ),
            (json!({"rateLimit": []}), "rateLimit", "expected an object"),
            (
                json!({"rateLimit": {"perDay": 0}}),
                "rateLimit.perDay",
                "invalid value",
            ),
            (
                json!({"rateLimit": {"per_day": 1}}),
                "rateLimit.per_day",
                "unknown field `per_day`, expected one of `perMinute`, `perHour`, `perDay`",
            ),
            (json!({"tool_prefix": "a"}), "tool_prefix", "unknown field"),
            (
                json!({"tokenInQuery": true}),
                "tokenInQuery",
                "unknown field",
            ),
        ] {
            let members = members.as_object().cloned().unwrap();
            let error = Definition::try_from(members).err().unwrap().to_string();
            assert!(error.starts_with(&format!("{key}: {expected}")), "{error}");
        }
    }

    #[test]
    fn a_stored_definition_has_the_members_of_the_request() {
        let stored = r#"{"definition":{"url":"https://a.example/","requireApproval":"never"}}"#;
        let parsed = StoredServer::parse(stored).unwrap();
        assert_eq!(serde_json::to_string(&parsed).unwrap(), stored);
        let definition = parsed.definition;
        assert_eq!(definition.settings.retry_attempts, DEFAULT_RETRY_ATTEMPTS);
        let server = definition
            .to_server_config("a", &Credentials::default())
            .unwrap();
        assert_eq!((server.label.as_str(), server.timeout.as_secs()), ("a", 30));
    }

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
