use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use serde::{Deserialize, Deserializer};
use url::Url;

use super::{
    Authentication, AuthorizationServices, Endpoint, Handshake, Limits, ServerConfig,
    ServerConfigError, StdioCommand, TransportKind, check_url, default_timeout,
};
use crate::ProtocolVersion;
use pillion_egress::EgressPolicy;

/// The configuration of a server as written, with the keys of both kinds of endpoint.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    label: String,
    #[serde(default)]
    description: String,
    #[serde(default, deserialize_with = "server_url")]
    url: Option<Url>,
    #[serde(default)]
    command: Option<PathBuf>,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<BTreeMap<String, SecretString>>,
    #[serde(default)]
    inherit_env: Option<Vec<String>>,
    #[serde(default)]
    cwd: Option<PathBuf>,
    #[serde(default)]
    transport: TransportKind,
    #[serde(default)]
    handshake: Handshake,
    #[serde(default)]
    protocol_version: Option<ProtocolVersion>,
    #[serde(default)]
    authentication: Authentication,
    #[serde(default)]
    headers: BTreeMap<String, SecretString>,
    #[serde(default)]
    token_in_query: bool,
    #[serde(
        default = "default_timeout",
        rename = "timeout_ms",
        deserialize_with = "milliseconds"
    )]
    timeout: Duration,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    egress: EgressPolicy,
}

impl Entry {
    fn take_endpoint(&mut self) -> Result<Endpoint, ServerConfigError> {
        match (self.url.take(), self.command.take()) {
            (Some(url), None) => {
                let strays = [
                    ("args", self.args.is_some()),
                    ("env", self.env.is_some()),
                    ("inherit_env", self.inherit_env.is_some()),
                    ("cwd", self.cwd.is_some()),
                ];
                match strays.into_iter().find(|(_, is_there)| *is_there) {
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

impl TryFrom<Entry> for ServerConfig {
    type Error = ServerConfigError;

    fn try_from(mut entry: Entry) -> Result<Self, ServerConfigError> {
        Ok(Self {
            endpoint: entry.take_endpoint()?,
            label: entry.label,
            description: entry.description,
            transport: entry.transport,
            handshake: entry.handshake,
            protocol_version: entry.protocol_version,
            authentication: entry.authentication,
            authorization: AuthorizationServices::default(),
            headers: entry.headers,
            token_in_query: entry.token_in_query,
            timeout: entry.timeout,
            limits: entry.limits,
            egress: entry.egress,
            wording: None,
        })
    }
}

fn server_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Url>, D::Error> {
    let text = String::deserialize(deserializer)?;
    check_url(&text).map(Some).map_err(serde::de::Error::custom)
}

fn milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let milliseconds = u64::deserialize(deserializer)?;
    if milliseconds == 0 {
        return Err(serde::de::Error::custom(
            "the timeout must be at least 1 ms",
        ));
    }
    Ok(Duration::from_millis(milliseconds))
}
