use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::millis;

/// `[tcp]`: the TCP listener, which serves the same API as the Unix socket. The listener is off
/// unless `listen` is set. Every request over TCP needs a token.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TcpSection {
    /// The address and port to [listen on](../how-to/serve-over-tcp.md), such as `127.0.0.1:7420`.
    pub listen: Option<SocketAddr>,
    /// Whether `listen` may be an address that other machines can reach. Pillion has no TLS: put a
    /// reverse proxy with TLS in front.
    pub allow_remote: bool,
    /// The name of an environment variable that contains tokens in the format of `tokens_file`,
    /// separated by `;`. Instead of a hash, an entry can contain the token itself, of at least 20
    /// characters.
    pub tokens_env: Option<String>,
    /// A file with one token per line: `NAME SCOPE sha256:HEX`, optionally followed by `user=NAME`
    /// or `any-user`, and by [`tools=TOOLS`](../how-to/serve-over-tcp.md#tools-of-a-token). Every
    /// line, including the last one, must end with a line break. Pillion reads a changed file
    /// again.
    pub tokens_file: Option<PathBuf>,
    /// Whether tokens created by `pillion tokens create` are valid.
    pub tokens_store: bool,
    /// Values that the header `Host` may have, in addition to `localhost`, `127.0.0.1`, `[::1]` and
    /// the address of `listen`.
    #[serde(deserialize_with = "read_hosts")]
    pub allowed_hosts: Vec<String>,
    /// Origins, such as `https://tools.example.com`, whose web pages may send requests, in addition
    /// to the server's own origin.
    pub allowed_origins: Vec<String>,
    /// Maximum number of authenticated TCP connections, in addition to the connections of the Unix
    /// socket. One token may use at most seven eighths of the connections that other tokens do not
    /// use. In addition, the same number of unauthenticated connections may be open; if there are
    /// more, the oldest unauthenticated connection is closed.
    pub max_connections: NonZeroUsize,
    /// How long a connection may stay open without a request that has a valid token.
    #[serde(rename = "authentication_timeout_ms")]
    #[serde(deserialize_with = "millis::read_positive")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = millis::MAX_MS)))]
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
    /// Returns the first key that is inconsistent with another key, and the error message.
    pub(super) fn find_fault(&self) -> Option<(&'static str, &'static str)> {
        let listen = self.listen?;
        if !listen.ip().is_loopback() && !self.allow_remote {
            return Some((
                "listen",
                "other hosts can reach this address: use one of 127.0.0.0/8 or [::1], or set \
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

/// Reads host names in lower case, the form in which they are compared.
fn read_hosts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let hosts = Vec::<String>::deserialize(deserializer)?;
    Ok(hosts.iter().map(|host| host.to_ascii_lowercase()).collect())
}
