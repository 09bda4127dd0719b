//! Determines the revisions that a server supports, from its responses and errors.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::session::Session;
use crate::{Feature, McpErrorKind, ProtocolVersion, RpcError};

pub(crate) const HEADER_MISMATCH: i64 = -32020;
const MISSING_CAPABILITY: i64 = -32021;
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

/// The outcome of `server/discover`.
pub(super) enum DiscoverOutcome {
    /// The server supports this revision, which has no handshake.
    Stateless(ProtocolVersion),
    /// The server requires a handshake, and supports this revision.
    Handshake(ProtocolVersion),
    /// The server rejected the requested revision, and supports this one. Neither revision has a
    /// handshake.
    OtherRevision(ProtocolVersion),
    /// The server does not know `server/discover`.
    Unsupported,
    /// The server sent no complete response, so its revision is unknown.
    NoResponse,
}

impl DiscoverOutcome {
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Stateless(version) => format!("revision {version}, stateless"),
            Self::Handshake(version) => format!("the server offers {version}"),
            Self::OtherRevision(version) => format!("the server asks for {version}"),
            Self::Unsupported => "not supported by the server".to_owned(),
            Self::NoResponse => "no response".to_owned(),
        }
    }
}

/// Interprets the response to `server/discover` (MCP 2026-07-28, "Backward Compatibility"). A
/// response that the revision 2026-07-28 does not allow means that the server is older.
pub(super) fn interpret_response(
    outcome: Result<Result<Box<RawValue>, RpcError>, McpErrorKind>,
    session: &mut Session,
) -> Result<DiscoverOutcome, McpErrorKind> {
    #[derive(Deserialize)]
    struct DiscoverResult {
        #[serde(rename = "supportedVersions")]
        supported_versions: Vec<String>,
    }
    let error = match outcome {
        Ok(Ok(result)) => {
            let Ok(discover_result) = serde_json::from_str::<DiscoverResult>(result.get()) else {
                return Ok(DiscoverOutcome::Unsupported);
            };
            let offered_versions = &discover_result.supported_versions;
            return match ProtocolVersion::newest_supported(offered_versions) {
                Some(version) if version.supports(Feature::RequestMetadata) => {
                    session.set_handshake_result(result);
                    Ok(DiscoverOutcome::Stateless(version))
                }
                Some(version) => Ok(DiscoverOutcome::Handshake(version)),
                None => Err(McpErrorKind::NoCommonVersion {
                    supported_versions: offered_versions.join(", "),
                }),
            };
        }
        Ok(Err(error)) => error,
        Err(McpErrorKind::HttpStatus {
            status,
            rpc_error: Some(error),
            ..
        }) if status != 407 => *error,
        // The statuses 408, 425, 429 and 502 to 504 do not reveal the server's revision, because
        // proxies and overloaded servers send these statuses in any revision.
        Err(McpErrorKind::HttpStatus {
            status: 408 | 425 | 429 | 502..=504,
            ..
        }) => return Ok(DiscoverOutcome::NoResponse),
        // All other statuses except 407 mean that the server does not know `server/discover`.
        // Status 401 means this, too, because many servers require a credential for unknown
        // methods, but none for `initialize` and some tools.
        Err(McpErrorKind::HttpStatus { status, .. }) if status != 407 => {
            return Ok(DiscoverOutcome::Unsupported);
        }
        // Errors of the credential, the configuration or the connection are returned, because any
        // other request would fail in the same way.
        Err(
            error @ (McpErrorKind::HttpStatus { .. }
            | McpErrorKind::ConnectionFailed(_)
            | McpErrorKind::Authorization(_)
            | McpErrorKind::Egress(_)
            | McpErrorKind::Redirect
            | McpErrorKind::Echo
            | McpErrorKind::Config(_)
            | McpErrorKind::UnserializableParams(_)
            | McpErrorKind::Setup(_)),
        ) => return Err(error),
        Err(
            McpErrorKind::Timeout { .. }
            | McpErrorKind::ConnectionBroken(_)
            | McpErrorKind::StreamClosed
            | McpErrorKind::ProcessEnded { .. },
        ) => return Ok(DiscoverOutcome::NoResponse),
        Err(_) => return Ok(DiscoverOutcome::Unsupported),
    };
    match error.code {
        UNSUPPORTED_VERSION => match find_newest_common_revision(&error) {
            Some(version) if version.supports(Feature::RequestMetadata) => {
                Ok(DiscoverOutcome::OtherRevision(version))
            }
            Some(version) => Ok(DiscoverOutcome::Handshake(version)),
            None => Err(McpErrorKind::Rpc(error)),
        },
        HEADER_MISMATCH | MISSING_CAPABILITY => Err(McpErrorKind::Rpc(error)),
        _ => Ok(DiscoverOutcome::Unsupported),
    }
}

/// Returns the newest common revision that an error -32022 lists, if that revision has no
/// handshake.
pub(super) fn find_stateless_version(error: &RpcError) -> Option<ProtocolVersion> {
    find_newest_common_revision(error).filter(|version| version.supports(Feature::RequestMetadata))
}

/// Returns the JSON-RPC error with which an operation failed, even if the error arrived in the body
/// of an HTTP error.
pub(super) fn rpc_error(error: &McpErrorKind) -> Option<&RpcError> {
    match error {
        McpErrorKind::Rpc(error) => Some(error),
        McpErrorKind::HttpStatus { rpc_error, .. } => rpc_error.as_deref(),
        _ => None,
    }
}

/// Returns the newest revision that an error -32022 lists and this client supports.
pub(crate) fn find_newest_common_revision(error: &RpcError) -> Option<ProtocolVersion> {
    #[derive(Deserialize)]
    struct UnsupportedVersionData {
        supported: Vec<String>,
    }
    let data: UnsupportedVersionData = serde_json::from_str(error.data.as_ref()?.get()).ok()?;
    ProtocolVersion::newest_supported(&data.supported)
}
