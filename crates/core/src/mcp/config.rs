mod authentication;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer};
use url::Url;

use super::{ProtocolVersion, Wording};
use crate::egress::{EgressError, EgressPolicy};
pub use authentication::Authentication;

/// One MCP server: where it is, how it is spoken to, with which credential.
///
/// In TOML or JSON the keys are those of the fields; `timeout_ms` is in milliseconds.
///
/// ```
/// use pillion_core::mcp::{ServerConfig, TransportKind};
/// let server: ServerConfig = serde_json::from_str(r#"{
///     "label": "dice", "url": "http://127.0.0.1:8000/sse", "transport": "post_sse",
///     "authentication": {"type": "bearer", "token": "s3cret"}
/// }"#)?;
/// assert_eq!(server.transport, TransportKind::PostSse);
/// assert!(!format!("{server:?}").contains("s3cret"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerConfig {
    /// The server's name here; tools carry it.
    pub label: String,
    /// What the server is for.
    #[serde(default)]
    pub description: String,
    /// The server's URL, `http` or `https`, without user and password.
    #[serde(deserialize_with = "server_url")]
    pub url: Url,
    /// How to speak to it. Default: find out.
    #[serde(default)]
    pub transport: TransportKind,
    /// Whether to negotiate first. Default: whenever the server can.
    #[serde(default)]
    pub handshake: Handshake,
    /// The protocol revision that the handshake offers. Default: the newest.
    #[serde(default)]
    pub protocol_version: Option<ProtocolVersion>,
    /// The credential. Default: none.
    #[serde(default)]
    pub authentication: Authentication,
    /// More headers for every request; the credential's own header wins over one here.
    #[serde(default)]
    pub headers: BTreeMap<String, SecretString>,
    /// Also sends a bearer token as `?token=`, for servers that read nothing else. It ends
    /// up in their access logs: off unless asked for.
    #[serde(default)]
    pub token_in_query: bool,
    /// How long one operation may take, connecting included. In JSON `timeout_ms`,
    /// milliseconds. Default 30 s.
    #[serde(
        default = "default_timeout",
        rename = "timeout_ms",
        deserialize_with = "milliseconds"
    )]
    pub timeout: Duration,
    /// How much of an answer is read.
    #[serde(default)]
    pub limits: Limits,
    /// Where requests may go. Default: [`EgressPolicy::default`], which refuses plain http
    /// to other machines.
    #[serde(default)]
    pub egress: EgressPolicy,
    /// The style of error texts. Default: by transport (E4).
    #[serde(skip)]
    pub wording: Option<Wording>,
}

/// The ways of speaking MCP over HTTP (E7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TransportKind {
    /// Find out on first use and remember it.
    #[default]
    Auto,
    /// POST, answered as JSON or as an event stream; sessions (2025-03-26 and later).
    StreamableHttp,
    /// A GET stream announces an `endpoint`; POST goes there, answers come on the stream.
    LegacySse,
    /// POST to the `/sse` URL itself, answered as an event stream or JSON; no handshake.
    PostSse,
    /// A GET stream, and POST to the same URL; answers come on the stream.
    GetSse,
    /// POST, answered as JSON.
    Http,
}

/// Whether a connection starts with `initialize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Handshake {
    /// Yes, except over `PostSse`, and not with a server that does not know the method.
    #[default]
    Auto,
    /// Never: the first request is the caller's own.
    Never,
}

/// How much is read before an answer counts as hostile. Each holds while reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one answer, event stream or JSON. Default 16 MiB.
    pub max_response_bytes: usize,
    /// Bytes of one event of a stream. Default 16 MiB.
    pub max_event_bytes: usize,
    /// Events before the one that answers. Default 10,000.
    pub max_events: usize,
    /// Pages of one list. Default 100.
    pub max_pages: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_response_bytes: 16 * 1024 * 1024,
            max_event_bytes: 16 * 1024 * 1024,
            max_events: 10_000,
            max_pages: 100,
        }
    }
}

/// Why a server cannot be configured as asked. No text here repeats a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerConfigError {
    /// The URL cannot be parsed, or is of another scheme than `http` and `https`.
    #[error("Invalid server URL: use http:// or https:// and a host")]
    Url,
    /// The URL holds a user or a password.
    #[error("The server URL holds a user or password: put them into 'authentication'")]
    CredentialInUrl,
    /// A header's name is no header name, or its value has characters that no header has.
    #[error("Invalid header '{name}'")]
    Header {
        /// The header's name, as configured.
        name: String,
    },
    /// The URL is one that may not be requested.
    #[error(transparent)]
    Egress(#[from] EgressError),
}

impl ServerConfig {
    /// A server with every setting at its default.
    ///
    /// # Errors
    /// [`ServerConfigError::Url`] or [`ServerConfigError::CredentialInUrl`].
    pub fn new(label: impl Into<String>, url: &str) -> Result<Self, ServerConfigError> {
        Ok(Self {
            label: label.into(),
            description: String::new(),
            url: check_url(url)?,
            transport: TransportKind::default(),
            handshake: Handshake::default(),
            protocol_version: None,
            authentication: Authentication::None,
            headers: BTreeMap::new(),
            token_in_query: false,
            timeout: default_timeout(),
            limits: Limits::default(),
            egress: EgressPolicy::default(),
            wording: None,
        })
    }

    /// Checks what only a look at the values can tell; the client checks it at first use.
    ///
    /// # Errors
    /// [`ServerConfigError::Header`], [`ServerConfigError::Egress`].
    pub fn validate(&self) -> Result<(), ServerConfigError> {
        self.egress.check_url(&self.url)?;
        self.header_map().map(drop)
    }

    /// The URL without its query, for logs and errors: a query may hold a token.
    #[must_use]
    pub fn display_url(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        url.set_fragment(None);
        url.into()
    }

    /// The headers of every request: the custom ones, then the credential's (E8). All are
    /// marked sensitive.
    pub(crate) fn header_map(&self) -> Result<HeaderMap, ServerConfigError> {
        let mut headers = HeaderMap::new();
        let custom = self.headers.iter();
        let custom = custom.map(|(name, value)| (name.clone(), value.expose_secret().to_owned()));
        for (name, value) in custom.chain(self.authentication.header()) {
            let invalid = || ServerConfigError::Header { name: name.clone() };
            let key = HeaderName::try_from(&name).map_err(|_| invalid())?;
            let mut value = HeaderValue::try_from(value).map_err(|_| invalid())?;
            value.set_sensitive(true);
            headers.insert(key, value);
        }
        Ok(headers)
    }

    /// The URL that requests go to: with `?token=` where the configuration asks for it.
    pub(crate) fn request_url(&self) -> Url {
        let mut url = self.url.clone();
        if let (true, Authentication::Bearer { token }) =
            (self.token_in_query, &self.authentication)
        {
            url.query_pairs_mut()
                .append_pair("token", token.expose_secret());
        }
        url
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("label", &self.label)
            .field("url", &self.display_url())
            .field("transport", &self.transport)
            .field("handshake", &self.handshake)
            .field("protocol_version", &self.protocol_version)
            .field("authentication", &self.authentication)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("timeout", &self.timeout)
            .field("limits", &self.limits)
            .field("egress", &self.egress)
            .finish_non_exhaustive()
    }
}

fn check_url(text: &str) -> Result<Url, ServerConfigError> {
    let url = Url::parse(text).map_err(|_| ServerConfigError::Url)?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(ServerConfigError::Url);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(ServerConfigError::CredentialInUrl);
    }
    Ok(url)
}

fn default_timeout() -> Duration {
    Duration::from_secs(30)
}

fn server_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Url, D::Error> {
    let text = String::deserialize(deserializer)?;
    check_url(&text).map_err(serde::de::Error::custom)
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(value: serde_json::Value) -> Result<ServerConfig, serde_json::Error> {
        serde_json::from_value(value)
    }

    #[test]
    fn e8_every_credential_becomes_its_header_and_wins_over_custom_ones() {
        let header = |authentication: serde_json::Value, name: &str| {
            let server = config(json!({
                "label": "x", "url": "https://x.example/mcp", "authentication": authentication,
                "headers": {"Authorization": "custom", "X-Tenant": "t1"},
            }))
            .unwrap();
            let headers = server.header_map().unwrap();
            assert_eq!(headers["x-tenant"], "t1");
            assert!(headers.values().all(HeaderValue::is_sensitive));
            headers[name].to_str().unwrap().to_owned()
        };
        assert_eq!(header(json!({"type": "none"}), "authorization"), "custom");
        assert_eq!(
            header(json!({"type": "bearer", "token": "t"}), "authorization"),
            "Bearer t"
        );
        assert_eq!(
            header(json!({"type": "api-key", "key": "k"}), "x-api-key"),
            "k"
        );
        assert_eq!(
            header(
                json!({"type": "api-key", "key": "k", "header": "X-K"}),
                "x-k"
            ),
            "k"
        );
        let basic = json!({"type": "basic", "username": "user", "password": "pass"});
        assert_eq!(header(basic, "authorization"), "Basic dXNlcjpwYXNz");
    }

    #[test]
    fn l1_debug_and_errors_show_no_secret() {
        let server = config(json!({
            "label": "x", "url": "https://x.example/mcp?token=hush1",
            "authentication": {"type": "basic", "username": "u", "password": "hush2"},
            "headers": {"X-Secret": "hush3"},
        }))
        .unwrap();
        assert!(!format!("{server:?}").contains("hush"));
        let bad = config(json!({
            "label": "x", "url": "https://x.example", "headers": {"X-Bad": "hush\n"},
        }));
        let error = bad.unwrap().validate().unwrap_err();
        assert_eq!(error.to_string(), "Invalid header 'X-Bad'");
        let error = config(json!({"label": "x", "url": "https://u:hush@x.example/"})).unwrap_err();
        assert!(!error.to_string().contains("hush"));
    }

    #[test]
    fn bad_values_are_refused_by_name() {
        for (value, part) in [
            (
                json!({"label": "x", "url": "not-a-url"}),
                "Invalid server URL",
            ),
            (
                json!({"label": "x", "url": "ftp://x.example"}),
                "Invalid server URL",
            ),
            (
                json!({"label": "x", "url": "http://x.example", "timeout_ms": 0}),
                "at least 1 ms",
            ),
            (
                json!({"label": "x", "url": "http://x.example", "transport": "pigeon"}),
                "pigeon",
            ),
            (
                json!({"label": "x", "url": "http://x.example", "colour": 1}),
                "colour",
            ),
            (
                json!({"label": "x", "url": "http://x.example", "authentication": {"type": "bearer"}}),
                "token",
            ),
        ] {
            let error = config(value).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
