//! Determines the revisions that a server supports, from its responses and errors.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::session::Session;
use crate::{Feature, McpErrorKind, ProtocolVersion, RpcError};

pub(crate) const HEADER_MISMATCH: i64 = -32020;
const MISSING_CAPABILITY: i64 = -32021;
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

/// The outcome of `server/discover`.
pub(super) enum Discovered {
    /// The server supports this revision, which has no handshake.
    Stateless(ProtocolVersion),
    /// The server requires a handshake, and supports this revision.
    Older(ProtocolVersion),
    /// The server rejected the requested revision, and supports this one. Neither revision has a
    /// handshake.
    AskIn(ProtocolVersion),
    /// The server does not know `server/discover`.
    Nothing,
    /// The server sent no complete response, so its revision is unknown.
    Silence,
}

impl Discovered {
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Stateless(version) => format!("revision {version}, stateless"),
            Self::Older(version) => format!("the server offers {version}"),
            Self::AskIn(version) => format!("the server asks for {version}"),
            Self::Nothing => "not supported by the server".to_owned(),
            Self::Silence => "no response".to_owned(),
        }
    }
}

/// Interprets the response to `server/discover` (MCP 2026-07-28, "Backward Compatibility"). A
/// response that no server of revision 2026-07-28 sends comes from an older server.
pub(super) fn discovered(
    outcome: Result<Result<Box<RawValue>, RpcError>, McpErrorKind>,
    session: &mut Session,
) -> Result<Discovered, McpErrorKind> {
    #[derive(Deserialize)]
    struct DiscoverResult {
        #[serde(rename = "supportedVersions")]
        supported_versions: Vec<String>,
    }
    let error = match outcome {
        Ok(Ok(result)) => {
            let Ok(found) = serde_json::from_str::<DiscoverResult>(result.get()) else {
                return Ok(Discovered::Nothing);
            };
            let supported = &found.supported_versions;
            let newest = ProtocolVersion::newest_of(supported.iter().map(String::as_str));
            return match newest {
                Some(version) if version.supports(Feature::RequestMetadata) => {
                    session.set_handshake_result(result);
                    Ok(Discovered::Stateless(version))
                }
                Some(version) => Ok(Discovered::Older(version)),
                None => Err(McpErrorKind::NoCommonVersion {
                    supported: supported.join(", "),
                }),
            };
        }
        Ok(Err(error)) => error,
        Err(McpErrorKind::HttpStatus {
            status,
            rpc: Some(error),
            ..
        }) if status != 407 => *error,
        // Proxies and overloaded servers send these statuses.
        Err(McpErrorKind::HttpStatus {
            status: 408 | 425 | 429 | 502..=504,
            ..
        }) => return Ok(Discovered::Silence),
        // Many servers require a credential for each method that they do not know, but none for
        // `initialize` and some tools.
        Err(McpErrorKind::HttpStatus { status, .. }) if status != 407 => {
            return Ok(Discovered::Nothing);
        }
        // Without the credential or the server, another request would fail in the same way.
        Err(
            error @ (McpErrorKind::HttpStatus { .. }
            | McpErrorKind::Connect(_)
            | McpErrorKind::Authorization(_)
            | McpErrorKind::Egress(_)
            | McpErrorKind::Redirect
            | McpErrorKind::Echo
            | McpErrorKind::Config(_)
            | McpErrorKind::Encode(_)
            | McpErrorKind::Setup(_)),
        ) => return Err(error),
        Err(
            McpErrorKind::Timeout { .. }
            | McpErrorKind::Broken(_)
            | McpErrorKind::StreamClosed
            | McpErrorKind::ProcessEnded { .. },
        ) => return Ok(Discovered::Silence),
        Err(_) => return Ok(Discovered::Nothing),
    };
    match error.code {
        UNSUPPORTED_VERSION => match newest_common_revision(&error) {
            Some(version) if version.supports(Feature::RequestMetadata) => {
                Ok(Discovered::AskIn(version))
            }
            Some(version) => Ok(Discovered::Older(version)),
            None => Err(McpErrorKind::Rpc(error)),
        },
        HEADER_MISMATCH | MISSING_CAPABILITY => Err(McpErrorKind::Rpc(error)),
        _ => Ok(Discovered::Nothing),
    }
}

/// Returns the newest common revision that an error -32022 lists, if that revision has no
/// handshake.
pub(super) fn stateless_version(error: &RpcError) -> Option<ProtocolVersion> {
    newest_common_revision(error).filter(|version| version.supports(Feature::RequestMetadata))
}

/// Returns the JSON-RPC error that an operation failed with, also if it arrived in the body of an
/// HTTP error.
pub(super) fn rpc_of(error: &McpErrorKind) -> Option<&RpcError> {
    match error {
        McpErrorKind::Rpc(error) => Some(error),
        McpErrorKind::HttpStatus { rpc, .. } => rpc.as_deref(),
        _ => None,
    }
}

/// Returns the newest revision that an error -32022 lists and this client supports.
pub(crate) fn newest_common_revision(error: &RpcError) -> Option<ProtocolVersion> {
    #[derive(Deserialize)]
    struct Data {
        supported: Vec<String>,
    }
    let data: Data = serde_json::from_str(error.data.as_ref()?.get()).ok()?;
    ProtocolVersion::newest_of(data.supported.iter().map(String::as_str))
}
