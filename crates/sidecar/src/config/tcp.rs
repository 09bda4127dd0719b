use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::millis;

/// `[tcp]`: the same API over TCP. Off unless `listen` is set, and then every request needs
/// a token.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TcpSection {
    /// An address and a port, such as `127.0.0.1:7420`. `PILLION__TCP__LISTEN`. Default none.
    pub listen: Option<SocketAddr>,
    /// Whether `listen` may be an address that other machines reach; there is no TLS, so
    /// something in front has to bring it. `PILLION__TCP__ALLOW_REMOTE`. Default false.
    pub allow_remote: bool,
    /// A variable of the environment with tokens: `NAME SCOPE TOKEN`, separated by `;`; see
    /// [`TokenList`](crate::access::TokenList).
    /// `PILLION__TCP__TOKENS_ENV`. Default none.
    pub tokens_env: Option<String>,
    /// A file with tokens, a line each: `NAME SCOPE sha256:HEX`. `PILLION__TCP__TOKENS_FILE`.
    /// Default none.
    pub tokens_file: Option<PathBuf>,
    /// Whether the tokens count that `pillion tokens create` makes. `PILLION__TCP__TOKENS_STORE`.
    /// Default false.
    pub tokens_store: bool,
    /// Names beside those of this machine's loopback, and the address of `listen`, that the
    /// header `Host` may have. `PILLION__TCP__ALLOWED_HOSTS`. Default none.
    #[serde(deserialize_with = "hosts")]
    pub allowed_hosts: Vec<String>,
    /// Origins beside the server's own, such as `https://tools.example.com`, that pages of
    /// a browser may have. `PILLION__TCP__ALLOWED_ORIGINS`. Default none.
    pub allowed_origins: Vec<String>,
    /// Maximum number of authenticated connections over TCP, in addition to the connections of the
    /// Unix socket. The same number of connections may be open that have not sent a valid token
    /// yet. `PILLION__TCP__MAX_CONNECTIONS`. Default 128.
    pub max_connections: NonZeroUsize,
    /// Maximum time in which a connection sends no request with a valid token; then the connection
    /// is closed. `PILLION__TCP__AUTHENTICATION_TIMEOUT_MS`. Default 10,000 ms.
    #[serde(
        rename = "authentication_timeout_ms",
        deserialize_with = "millis::positive"
    )]
    pub authentication_timeout: Duration,
}

impl Default for TcpSection {
    fn default() -> Self {
        Self {
            listen: None,
            allow_remote: false,
            tokens_env: None,
            tokens_file: None,
            tokens_store: false,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            max_connections: NonZeroUsize::new(128).unwrap_or(NonZeroUsize::MIN),
            authentication_timeout: Duration::from_secs(10),
        }
    }
}

impl TcpSection {
    /// What is wrong between the keys, and with which of them.
    pub(super) fn fault(&self) -> Option<(&'static str, &'static str)> {
        let listen = self.listen?;
        if !listen.ip().is_loopback() && !self.allow_remote {
            return Some((
                "listen",
                "other machines reach this address: take one of 127.0.0.0/8 or [::1], or set \
                 tcp.allow_remote",
            ));
        }
        if self.tokens_env.is_none() && self.tokens_file.is_none() && !self.tokens_store {
            return Some((
                "listen",
                "TCP needs tokens: set tcp.tokens_env or tcp.tokens_file, or tcp.tokens_store",
            ));
        }
        None
    }
}

/// Names as they are compared: in lower case and without a port.
fn hosts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let hosts = Vec::<String>::deserialize(deserializer)?;
    Ok(hosts.iter().map(|host| host.to_ascii_lowercase()).collect())
}
