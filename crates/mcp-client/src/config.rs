mod authentication;
mod definition;
mod endpoint;
mod error;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use http::header::HOST;
use http::{HeaderMap, HeaderName, HeaderValue};
use ring::digest::{SHA256, digest};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;

use super::{MessageStyle, ProtocolVersion};
pub use authentication::{Authentication, AuthorizationServices};
pub use definition::ServerDefinition;
pub use endpoint::{Endpoint, StdioCommand};
pub use error::ServerConfigError;
use pillion_egress::{CONNECTION_HEADERS, EgressPolicy};

/// Configuration of one MCP server: address, transport, credential and limits.
///
/// The keys in TOML and JSON are those of [`ServerDefinition`].
///
/// ```
/// use pillion_mcp_client::{ServerConfig, TransportKind};
/// let server: ServerConfig = serde_json::from_str(r#"{
///     "label": "dice", "url": "http://127.0.0.1:8000/sse", "transport": "post_sse",
///     "authentication": {"type": "bearer", "token": "s3cret"}
/// }"#)?;
/// assert_eq!(server.transport, TransportKind::PostSse);
/// assert!(!format!("{server:?}").contains("s3cret"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Deserialize)]
#[serde(try_from = "ServerDefinition")]
#[non_exhaustive]
pub struct ServerConfig {
    /// The server's label, which names the server in logs, in errors and in the names of its tools.
    pub label: String,
    /// The server's purpose, in the operator's words; may be empty.
    pub description: String,
    /// The address of the server. In JSON either `url`, or `command` with `args`, `env`,
    /// `inherit_env` and `cwd`, the fields of [`StdioCommand`].
    pub endpoint: Endpoint,
    /// The transport. Default: the client detects the transport.
    pub transport: TransportKind,
    /// Whether a connection starts with a handshake. Default: a handshake if the server supports
    /// one.
    pub handshake: Handshake,
    /// The protocol revision that the handshake requests. Default: the newest one.
    pub protocol_version: Option<ProtocolVersion>,
    /// The credential for the server. Default: none.
    pub authentication: Authentication,
    /// The browser prompt and the token store for [`Authentication::OAuth`]. Default: no prompt,
    /// and tokens in memory.
    pub authorization: AuthorizationServices,
    /// Additional headers for every request; the credential's own header takes precedence.
    pub headers: BTreeMap<String, SecretString>,
    /// Whether to also send a bearer token as `?token=`, for servers that read the token only from
    /// the query. Such tokens end up in the server's access logs. Default `false`.
    pub token_in_query: bool,
    /// Timeout of one operation, including connecting. In JSON `timeout_ms`, in milliseconds.
    /// Default 30 s.
    pub timeout: Duration,
    /// Size limits of the server's responses.
    pub limits: Limits,
    /// Which addresses requests may reach. Default: [`EgressPolicy::default`], which rejects plain
    /// `http` to other machines.
    pub egress: EgressPolicy,
    /// The style of error messages. Default: depends on the transport. Not configurable in JSON.
    pub message_style: Option<MessageStyle>,
}

/// The transport of a connection to an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
#[non_exhaustive]
pub enum TransportKind {
    /// The client detects the transport on first use, and caches it.
    #[default]
    Auto,
    /// Streamable HTTP (2025-03-26 and later), with sessions. Each response to a POST is JSON or an
    /// event stream.
    StreamableHttp,
    /// HTTP+SSE: the event `endpoint` of a GET stream contains the URL for POST. Responses arrive
    /// on the stream.
    LegacySse,
    /// POST to the `/sse` URL itself, without a handshake. Each response is an event stream or
    /// JSON.
    PostSse,
    /// POST to the same URL as that of a GET stream, on which the responses arrive.
    GetSse,
    /// POST with JSON responses only.
    Http,
    /// WebSocket with the subprotocol `mcp`. The only transport for `ws` and `wss` URLs.
    #[serde(rename = "websocket")]
    WebSocket,
    /// Standard streams of a program. The only transport for a command.
    Stdio,
}

impl TransportKind {
    const ALL: [Self; 8] = [
        Self::Auto,
        Self::StreamableHttp,
        Self::LegacySse,
        Self::PostSse,
        Self::GetSse,
        Self::Http,
        Self::WebSocket,
        Self::Stdio,
    ];

    /// Returns the transport's name in configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::StreamableHttp => "streamable_http",
            Self::LegacySse => "legacy_sse",
            Self::PostSse => "post_sse",
            Self::GetSse => "get_sse",
            Self::Http => "http",
            Self::WebSocket => "websocket",
            Self::Stdio => "stdio",
        }
    }
}

/// Error for an unknown transport name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Unknown transport: {name}, expected one of {}", TransportKind::ALL.map(TransportKind::name).join(", "))]
pub struct UnknownTransport {
    /// The configured name.
    pub name: String,
}

impl TryFrom<String> for TransportKind {
    type Error = UnknownTransport;

    /// Parses a transport's name; also accepts `-` for `_`, and `sse`, as in most clients, for
    /// `legacy_sse`.
    fn try_from(name: String) -> Result<Self, UnknownTransport> {
        let canonical_name = match name.as_str() {
            "sse" => Self::LegacySse.name().to_owned(),
            name => name.replace('-', "_"),
        };
        let mut transports = Self::ALL.into_iter();
        let transport = transports.find(|transport| transport.name() == canonical_name);
        transport.ok_or(UnknownTransport { name })
    }
}

/// Determines whether a connection starts with a handshake (`initialize`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Handshake {
    /// Connections start with a handshake, except over `PostSse` and with servers that do not know
    /// `initialize`.
    #[default]
    Auto,
    /// Connections start without a handshake, so the first request is that of the caller.
    Never,
}

/// Size limits of responses, enforced while reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum size of one response (event stream or JSON), in bytes. Default 16 MiB. All pages of
    /// a list together may have four times that size.
    pub max_response_bytes: usize,
    /// Maximum size of one event of a stream, one line of a program, or one message of a WebSocket,
    /// in bytes. Default 16 MiB.
    pub max_event_bytes: usize,
    /// Maximum number of events of a stream before the response. Default 10,000.
    pub max_events: usize,
    /// Maximum number of pages of a list. Default 100.
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

impl ServerConfig {
    /// Creates a configuration for a URL, with all defaults.
    ///
    /// # Errors
    /// [`ServerConfigError::Url`] if the URL is invalid; [`ServerConfigError::CredentialInUrl`] if
    /// the URL contains a user or a password.
    pub fn new(label: impl Into<String>, url: &str) -> Result<Self, ServerConfigError> {
        Ok(Self::for_endpoint(label, Endpoint::Url(parse_url(url)?)))
    }

    /// Creates a configuration for a local program, with all defaults.
    ///
    /// ```
    /// use pillion_mcp_client::{ServerConfig, StdioCommand};
    /// let mut command = StdioCommand::new("node");
    /// command.args = vec!["server.js".into(), "stdio".into()];
    /// let server = ServerConfig::for_command("notes", command);
    /// assert_eq!(server.display_url(), "stdio:node");
    /// ```
    #[must_use]
    pub fn for_command(label: impl Into<String>, command: StdioCommand) -> Self {
        Self::for_endpoint(label, Endpoint::Command(command))
    }

    fn for_endpoint(label: impl Into<String>, endpoint: Endpoint) -> Self {
        Self {
            label: label.into(),
            description: String::new(),
            endpoint,
            transport: TransportKind::default(),
            handshake: Handshake::default(),
            protocol_version: None,
            authentication: Authentication::None,
            authorization: AuthorizationServices::default(),
            headers: BTreeMap::new(),
            token_in_query: false,
            timeout: default_timeout(),
            limits: Limits::default(),
            egress: EgressPolicy::default(),
            message_style: None,
        }
    }

    /// Validates the combination of the settings. The client validates them on first use.
    ///
    /// # Errors
    /// The variant of [`ServerConfigError`] for the first invalid setting: the headers, the
    /// command, the transport, the egress policy or the OAuth settings.
    pub fn validate(&self) -> Result<(), ServerConfigError> {
        if let Authentication::OAuth(oauth) = &self.authentication {
            oauth.validate()?;
        }
        match &self.endpoint {
            Endpoint::Command(command) => {
                if let Some(problem) = command.find_problem() {
                    return Err(ServerConfigError::Command { problem });
                }
            }
            Endpoint::Url(_) => self.egress.check_url(&self.request_url()?)?,
        }
        let is_channel = |kind| matches!(kind, TransportKind::Stdio | TransportKind::WebSocket);
        let (configured, supported) = (self.transport, self.endpoint.transport());
        if configured != TransportKind::Auto
            && configured != supported
            && (is_channel(configured) || is_channel(supported))
        {
            return Err(ServerConfigError::Transport);
        }
        self.build_header_map().map(drop)
    }

    /// Returns the server's URL; `None` if the endpoint is a command.
    #[must_use]
    pub fn url(&self) -> Option<&Url> {
        match &self.endpoint {
            Endpoint::Url(url) => Some(url),
            Endpoint::Command(_) => None,
        }
    }

    /// Returns the server's address for logs and errors: the URL without its query, or `stdio:` and
    /// the program's name without its arguments. Query and arguments may contain secrets.
    #[must_use]
    pub fn display_url(&self) -> String {
        match &self.endpoint {
            Endpoint::Url(url) => {
                let mut shown_url = url.clone();
                shown_url.set_query(None);
                shown_url.set_fragment(None);
                shown_url.into()
            }
            Endpoint::Command(command) => format!("stdio:{}", command.name()),
        }
    }

    /// Returns the SHA-256 of the complete URL, or of the program with its arguments and directory,
    /// in hexadecimal digits. Two configurations with the same digest reach the same server.
    #[must_use]
    pub fn endpoint_digest(&self) -> String {
        let endpoint = match &self.endpoint {
            Endpoint::Url(url) => serde_json::json!({ "url": url.as_str() }),
            Endpoint::Command(command) => serde_json::json!({
                "program": command.program.to_string_lossy(),
                "args": command.args,
                "cwd": command.cwd.as_ref().map(|cwd| cwd.to_string_lossy()),
            }),
        };
        let endpoint_digest = digest(&SHA256, endpoint.to_string().as_bytes());
        let bytes = endpoint_digest.as_ref().iter();
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the configured transport, or the only transport that the endpoint supports;
    /// otherwise `Auto`.
    pub(crate) fn transport_kind(&self) -> TransportKind {
        match self.transport {
            TransportKind::Auto => self.endpoint.transport(),
            transport => transport,
        }
    }

    /// Returns the headers of every request: the configured ones, then the credential's. All are
    /// marked as sensitive.
    pub(crate) fn build_header_map(&self) -> Result<HeaderMap, ServerConfigError> {
        let mut headers = HeaderMap::new();
        let configured_headers = self
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), value.expose_secret().to_owned()));
        for (name, value) in configured_headers.chain(self.authentication.header()) {
            let header_error = || ServerConfigError::Header { name: name.clone() };
            let header_name = HeaderName::try_from(&name).map_err(|_| header_error())?;
            // A configured `Host` header is allowed, because an address may serve several virtual
            // hosts.
            if CONNECTION_HEADERS.contains(&header_name.as_str()) && header_name != HOST {
                return Err(ServerConfigError::ConnectionHeader { name });
            }
            let mut header_value = HeaderValue::try_from(value).map_err(|_| header_error())?;
            header_value.set_sensitive(true);
            headers.insert(header_name, header_value);
        }
        Ok(headers)
    }

    /// Returns the URL for requests, with `?token=` if configured. For a WebSocket, returns the URL
    /// of the HTTP request that opens it.
    ///
    /// # Errors
    /// [`ServerConfigError::Url`] for a server without a URL.
    pub(crate) fn request_url(&self) -> Result<Url, ServerConfigError> {
        let mut url = self.url().ok_or(ServerConfigError::Url)?.clone();
        let outcome = match url.scheme() {
            "ws" => url.set_scheme("http"),
            "wss" => url.set_scheme("https"),
            _ => Ok(()),
        };
        outcome.map_err(|()| ServerConfigError::Url)?;
        if let (true, Authentication::Bearer { token }) =
            (self.token_in_query, &self.authentication)
        {
            url.query_pairs_mut()
                .append_pair("token", token.expose_secret());
        }
        Ok(url)
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

fn parse_url(text: &str) -> Result<Url, ServerConfigError> {
    let url = Url::parse(text).map_err(|_| ServerConfigError::Url)?;
    if !matches!(url.scheme(), "http" | "https" | "ws" | "wss")
        || url.host_str().is_none_or(str::is_empty)
    {
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

#[cfg(test)]
mod tests;
