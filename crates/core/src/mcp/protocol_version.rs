use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A revision of the Model Context Protocol, ordered from the oldest to the newest.
///
/// Code never compares revisions to decide something: it asks
/// [`supports`](Self::supports), and the answer is decided here.
///
/// ```
/// use pillion_core::mcp::{Feature, ProtocolVersion};
/// let version: ProtocolVersion = "2025-06-18".parse().unwrap();
/// assert!(version > ProtocolVersion::V2024_11_05);
/// assert!(version.supports(Feature::ProtocolVersionHeader));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// HTTP+SSE with an `endpoint` event.
    V2024_11_05,
    /// Streamable HTTP, sessions, batches.
    V2025_03_26,
    /// The version header, structured output; no batches.
    V2025_06_18,
    /// Resumption by polling, JSON Schema 2020-12.
    V2025_11_25,
}

/// Something that only some revisions have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feature {
    /// The `MCP-Protocol-Version` header on every request after the handshake.
    ProtocolVersionHeader,
}

/// A string that names no revision known here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Unknown MCP protocol version '{0}'")]
pub struct UnknownProtocolVersion(pub String);

impl ProtocolVersion {
    /// The newest revision that the handshake offers.
    pub const LATEST: Self = Self::V2025_11_25;

    const ALL: [Self; 4] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
    ];

    /// The revision as the protocol writes it: a date.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
        }
    }

    /// Whether this revision has `feature`.
    #[must_use]
    pub fn supports(self, feature: Feature) -> bool {
        match feature {
            Feature::ProtocolVersionHeader => self >= Self::V2025_06_18,
        }
    }

    /// The newest known revision that is not newer than `text`, which a server answered
    /// the handshake with: revisions are dates, so they sort as text. A server may know
    /// one that came out after us and speak it compatibly enough.
    pub(crate) fn closest_to(text: &str) -> Self {
        let not_newer = Self::ALL
            .into_iter()
            .rev()
            .find(|known| known.as_str() <= text);
        not_newer.unwrap_or(Self::V2024_11_05)
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ProtocolVersion {
    type Err = UnknownProtocolVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|known| known.as_str() == text);
        known.ok_or_else(|| UnknownProtocolVersion(text.to_owned()))
    }
}

impl TryFrom<String> for ProtocolVersion {
    type Error = UnknownProtocolVersion;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ProtocolVersion> for &'static str {
    fn from(version: ProtocolVersion) -> Self {
        version.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_ordered_and_an_unknown_one_falls_back() {
        assert!(ProtocolVersion::ALL.is_sorted());
        assert_eq!(
            ProtocolVersion::closest_to("2025-07-01"),
            ProtocolVersion::V2025_06_18
        );
        assert_eq!(
            ProtocolVersion::closest_to("1999-01-01"),
            ProtocolVersion::V2024_11_05
        );
        assert_eq!(
            ProtocolVersion::closest_to("2099-01-01"),
            ProtocolVersion::V2025_11_25
        );
        assert!("2025".parse::<ProtocolVersion>().is_err());
    }
}
