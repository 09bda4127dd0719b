use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use serde::{Deserialize, Deserializer};
use url::Url;

use super::{
    Authentication, Endpoint, Handshake, Limits, ServerConfig, ServerConfigError, StdioCommand,
    TransportKind, default_timeout, parse_url,
};
use crate::ProtocolVersion;
use pillion_egress::EgressPolicy;

/// The definition of a server, as written in TOML, in JSON, in PHP code or for the REST API.
/// Converted to a [`ServerConfig`].
///
/// The comments of the fields are shown to users: in the reference of the configuration, and
/// without links in the OpenAPI document.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerDefinition {
    /// The server's name in the sidecar, unique among all servers.
    pub label: String,
    /// The server's purpose. Default: `""`.
    #[serde(default)]
    pub description: String,
    /// The transport: `auto` (detects the transport), `streamable_http`, `legacy_sse` (also `sse`),
    /// `post_sse`, `get_sse`, `http`, `websocket` or `stdio`. Default: `auto`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub transport: TransportKind,
    /// Whether a connection starts with `initialize`: `auto` (if the server supports it) or
    /// `never`. Default: `auto`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub handshake: Handshake,
    /// The MCP protocol revision that the handshake offers, such as `2025-06-18`. Default: the
    /// newest.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub protocol_version: Option<ProtocolVersion>,
    /// The server's URL: `http` or `https`, or `ws` or `wss` for WebSocket; without user and
    /// password. Required unless the server has a `command`.
    #[serde(default, deserialize_with = "deserialize_url")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub url: Option<Url>,
    /// Additional headers for every request, except headers that frame a message
    /// (`Content-Length`, `Transfer-Encoding`, `Connection` and similar headers).
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub headers: BTreeMap<String, SecretString>,
    /// The credential: an object whose `type` is `none`, `bearer` (with the key `token`), `api-key`
    /// (`key`, and `header`, by default `x-api-key`), `basic` (`username`, `password`) or
    /// [`oauth`](../how-to/oauth.md#in-the-sidecar).
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub authentication: Authentication,
    /// The program of a stdio server: a path, or a name that is looked up in the `PATH` of the
    /// program's environment.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub command: Option<PathBuf>,
    /// The program's arguments. They are not interpreted by a shell.
    pub args: Option<Vec<String>>,
    /// The program's environment variables.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub env: Option<BTreeMap<String, SecretString>>,
    /// Names of the sidecar's environment variables that the program inherits unchanged.
    pub inherit_env: Option<Vec<String>>,
    /// The program's working directory. Default: the sidecar's.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub cwd: Option<PathBuf>,
    /// Timeout of one operation, including the connection, in milliseconds. Default: 30000.
    #[serde(default = "default_timeout", rename = "timeout_ms")]
    #[serde(deserialize_with = "deserialize_millis")]
    #[cfg_attr(feature = "openapi", schema(value_type = u64, minimum = 1))]
    pub timeout: Duration,
    /// Whether a bearer token is also sent as `?token=`, for servers that read only the query.
    /// Default: `false`.
    #[serde(default)]
    pub token_in_query: bool,
    /// Size limits of responses: `max_response_bytes` (for lists: four times this value),
    /// `max_event_bytes`, `max_events`, `max_pages`. The number of
    /// [JSON values](errors.md#json-values) of a response is limited, too. Default: 16 MiB, 16 MiB,
    /// 10000, 100.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub limits: Limits,
    /// Allowed destinations of requests: `allow_http` (hosts that are allowed without TLS),
    /// `allow_private`, `allow_loopback`, `allow_networks`, `deny_networks`. Default: plain `http`
    /// and `ws` to this machine only; private addresses and this machine allowed.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub egress: EgressPolicy,
}

impl ServerDefinition {
    fn take_endpoint(&mut self) -> Result<Endpoint, ServerConfigError> {
        match (self.url.take(), self.command.take()) {
            (Some(url), None) => {
                let command_keys = [
                    ("args", self.args.is_some()),
                    ("env", self.env.is_some()),
                    ("inherit_env", self.inherit_env.is_some()),
                    ("cwd", self.cwd.is_some()),
                ];
                match command_keys.into_iter().find(|(_, is_set)| *is_set) {
                    Some((key, _)) => Err(ServerConfigError::CommandKey { key }),
                    None => Ok(Endpoint::Url(url)),
                }
            }
            (None, Some(program)) => Ok(Endpoint::Command(StdioCommand {
                program,
                args: self.args.take().unwrap_or_default(),
                env: self.env.take().unwrap_or_default(),
                inherit_env: self.inherit_env.take().unwrap_or_default(),
                cwd: self.cwd.take(),
            })),
            (Some(_), Some(_)) | (None, None) => Err(ServerConfigError::Endpoint),
        }
    }
}

impl TryFrom<ServerDefinition> for ServerConfig {
    type Error = ServerConfigError;

    fn try_from(mut definition: ServerDefinition) -> Result<Self, ServerConfigError> {
        let endpoint = definition.take_endpoint()?;
        Ok(Self {
            description: definition.description,
            transport: definition.transport,
            handshake: definition.handshake,
            protocol_version: definition.protocol_version,
            authentication: definition.authentication,
            headers: definition.headers,
            token_in_query: definition.token_in_query,
            timeout: definition.timeout,
            limits: definition.limits,
            egress: definition.egress,
            ..Self::for_endpoint(definition.label, endpoint)
        })
    }
}

fn deserialize_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Url>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_url(&text).map(Some).map_err(serde::de::Error::custom)
}

fn deserialize_millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let milliseconds = u64::deserialize(deserializer)?;
    if milliseconds == 0 {
        return Err(serde::de::Error::custom(
            "the timeout must be at least 1 ms, 0 given",
        ));
    }
    Ok(Duration::from_millis(milliseconds))
}
