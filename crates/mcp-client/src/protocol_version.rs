use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A revision of the Model Context Protocol. Newer revisions are greater.
///
/// Code must not compare revisions to decide on a behavior; use [`supports`](Self::supports).
///
/// ```
/// use pillion_mcp_client::{Feature, ProtocolVersion};
/// let version: ProtocolVersion = "2025-06-18".parse().unwrap();
/// assert!(version > ProtocolVersion::V2024_11_05);
/// assert!(version.supports(Feature::ProtocolVersionHeader));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// This revision has HTTP+SSE with an `endpoint` event.
    V2024_11_05,
    /// This revision adds Streamable HTTP, sessions and batches.
    V2025_03_26,
    /// This revision adds the version header and structured output, and removes batches.
    V2025_06_18,
    /// This revision adds resumption by polling, and JSON Schema 2020-12.
    V2025_11_25,
    /// This revision is stateless: it has no handshake and no sessions, and every request carries
    /// all metadata.
    V2026_07_28,
}

/// A feature that only some revisions have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feature {
    /// A connection starts with `initialize`; the server may send requests and unsolicited
    /// notifications. Until 2025-11-25.
    Handshake,
    /// The `MCP-Protocol-Version` header on every request. Since 2025-06-18.
    ProtocolVersionHeader,
    /// Every request carries the revision, the client and its capabilities in `_meta`, and mirrors
    /// its method, name and parameters in `Mcp-*` headers. Since 2026-07-28.
    RequestMetadata,
    /// Over HTTP, closing the stream of a response cancels the request; in older revisions, closing
    /// had no meaning. Since 2026-07-28.
    CancelByClosing,
    /// Structured results of tools, and their schemas, may have any JSON type; older revisions
    /// allow only objects. Since 2026-07-28.
    AnyStructuredContent,
    /// A connecting client lists the resources right after the tools, as clients of revision
    /// 2024-11-05 did. Only 2024-11-05.
    ResourcesAfterTools,
}

/// The error for an unknown protocol revision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Unknown MCP protocol version '{}', expected one of {}",
    .0,
    ProtocolVersion::ALL.map(ProtocolVersion::as_str).join(", ")
)]
pub struct UnknownProtocolVersion(pub String);

impl ProtocolVersion {
    /// The newest supported revision.
    pub const LATEST: Self = Self::V2026_07_28;

    /// The newest revision with a handshake.
    pub const LATEST_WITH_HANDSHAKE: Self = Self::V2025_11_25;

    const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];

    /// Returns the revision's name in the protocol, which is a date.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Returns whether this revision has `feature`.
    #[must_use]
    pub fn supports(self, feature: Feature) -> bool {
        match feature {
            Feature::Handshake => self <= Self::LATEST_WITH_HANDSHAKE,
            Feature::ResourcesAfterTools => self <= Self::V2024_11_05,
            Feature::ProtocolVersionHeader => self >= Self::V2025_06_18,
            Feature::RequestMetadata | Feature::CancelByClosing | Feature::AnyStructuredContent => {
                self >= Self::V2026_07_28
            }
        }
    }

    /// Returns the revision for a server that responds to the handshake with the revision `text`:
    /// the newest revision with a handshake that is not newer than `text`, or else the oldest one.
    /// Revisions are dates, so they sort as text. An unknown revision is not rejected, because it
    /// may be compatible.
    pub(crate) fn closest_handshake_revision(text: &str) -> Self {
        let closest_version = Self::ALL
            .into_iter()
            .rev()
            .filter(|version| version.supports(Feature::Handshake))
            .find(|version| version.as_str() <= text);
        closest_version.unwrap_or(Self::V2024_11_05)
    }

    /// Returns the newest of the offered revisions that this client supports.
    pub(crate) fn newest_supported(offered: &[String]) -> Option<Self> {
        offered.iter().filter_map(|text| text.parse().ok()).max()
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
        let mut versions = Self::ALL.into_iter();
        let version = versions.find(|version| version.as_str() == text);
        version.ok_or_else(|| UnknownProtocolVersion(text.to_owned()))
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
    fn revisions_are_ordered_and_an_unknown_revision_falls_back() {
        assert!(ProtocolVersion::ALL.is_sorted());
        for (text, closest) in [
            ("2025-07-01", ProtocolVersion::V2025_06_18),
            ("1999-01-01", ProtocolVersion::V2024_11_05),
            ("2099-01-01", ProtocolVersion::V2025_11_25),
        ] {
            assert_eq!(ProtocolVersion::closest_handshake_revision(text), closest);
        }
        assert!("2025".parse::<ProtocolVersion>().is_err());
    }
}
