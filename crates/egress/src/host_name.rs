use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Deserializer};
use url::Host;

/// The host of a URL: a name in lower-case ASCII without a final dot, or the canonical text of an
/// IP address, IPv6 without brackets.
///
/// ```
/// use pillion_egress::HostName;
/// let host: HostName = "MCP.Internal.".parse()?;
/// assert_eq!(host.as_str(), "mcp.internal");
/// assert!("http://mcp.internal".parse::<HostName>().is_err());
/// assert!("mcp.internal:8000".parse::<HostName>().is_err());
/// # Ok::<(), pillion_egress::InvalidHostName>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostName(String);

/// Error for a text that is not the host of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a host must be a name or an IP address without scheme, port and path")]
pub struct InvalidHostName;

impl HostName {
    /// Maximum length of a DNS name, in characters. A URL that a server has sent may contain a
    /// longer name.
    const MAX_CHARACTERS: usize = 253;

    /// Returns the host in its normalized form, with which configured hosts are compared.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Normalizes the host of a URL. A name that is too long for DNS is truncated to a text that
    /// equals no valid name.
    pub(super) fn from_host(host: &Host<&str>) -> Self {
        Self(match host {
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => IpAddr::from(*address).to_canonical().to_string(),
            Host::Domain(name) => Self::normalize(name),
        })
    }

    /// Normalizes a name that is being resolved: the host name of a URL or of a proxy.
    pub(super) fn from_name(name: &str) -> Self {
        Self(Self::normalize(name))
    }

    fn normalize(name: &str) -> String {
        let name = name.strip_suffix('.').unwrap_or(name);
        if name.len() <= Self::MAX_CHARACTERS {
            return name.to_ascii_lowercase();
        }
        let prefix = name.chars().take(Self::MAX_CHARACTERS - 1);
        prefix.collect::<String>().to_ascii_lowercase() + "…"
    }
}

impl std::str::FromStr for HostName {
    type Err = InvalidHostName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let host = match text.parse() {
            Ok(IpAddr::V4(address)) => Host::Ipv4(address),
            Ok(IpAddr::V6(address)) => Host::Ipv6(address),
            Err(_) => Host::parse(text).map_err(|_| InvalidHostName)?,
        };
        Ok(match &host {
            Host::Domain(name) => Self::from_host(&Host::Domain(name)),
            Host::Ipv4(address) => Self::from_host(&Host::Ipv4(*address)),
            Host::Ipv6(address) => Self::from_host(&Host::Ipv6(*address)),
        })
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for HostName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
