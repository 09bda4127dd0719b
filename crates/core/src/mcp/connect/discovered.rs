//! What a server says of the revisions that it speaks, be it asked or be it in an error.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::mcp::session::Session;
use crate::mcp::{Feature, McpErrorKind, ProtocolVersion, RpcError};

pub(in crate::mcp) const HEADER_MISMATCH: i64 = -32020;
const MISSING_CAPABILITY: i64 = -32021;
pub(in crate::mcp) const UNSUPPORTED_VERSION: i64 = -32022;

/// What the answer to `server/discover` says.
pub(super) enum Discovered {
    /// The server speaks this revision, which has no handshake.
    Stateless(ProtocolVersion),
    /// The server wants a handshake, and said which revisions it speaks.
    Older(ProtocolVersion),
    /// The server refused the revision and wants this one, which has no handshake either.
    AskIn(ProtocolVersion),
    /// A server from before this method.
    Nothing,
    /// No answer, or none that could be read to its end: it may be any server.
    Silence,
}

impl Discovered {
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Stateless(version) => format!("revision {version}, stateless"),
            Self::Older(version) => format!("the server offers {version}"),
            Self::AskIn(version) => format!("the server asks for {version}"),
            Self::Nothing => "not known to the server".to_owned(),
            Self::Silence => "no answer".to_owned(),
        }
    }
}

/// Reads the answer to `server/discover` (MCP 2026-07-28, "Backward Compatibility"). What
/// no server of that revision would answer says that it is an older one.
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
                    session.introduced(result);
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
        }) if !matches!(status, 401 | 403 | 407) => *error,
        // Of something on the way to the server, or of one that had no time.
        Err(McpErrorKind::HttpStatus {
            status: 408 | 425 | 429 | 502..=504,
            ..
        }) => return Ok(Discovered::Silence),
        Err(McpErrorKind::HttpStatus { status, .. }) if !matches!(status, 401 | 403 | 407) => {
            return Ok(Discovered::Nothing);
        }
        // The credential is missing or wrong, or there is nobody, or no server: to ask again
        // in other words would change nothing.
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
        UNSUPPORTED_VERSION => match supported_by(&error) {
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

/// The revision without handshake that an error -32022 asks for.
pub(super) fn stateless_version(error: &RpcError) -> Option<ProtocolVersion> {
    supported_by(error).filter(|version| version.supports(Feature::RequestMetadata))
}

/// The JSON-RPC error that an error is, or that came with a status.
pub(super) fn rpc_of(error: &McpErrorKind) -> Option<&RpcError> {
    match error {
        McpErrorKind::Rpc(error) => Some(error),
        McpErrorKind::HttpStatus { rpc, .. } => rpc.as_deref(),
        _ => None,
    }
}

/// The newest revision of ours among those that an error -32022 lists.
pub(in crate::mcp) fn supported_by(error: &RpcError) -> Option<ProtocolVersion> {
    #[derive(Deserialize)]
    struct Data {
        supported: Vec<String>,
    }
    let data: Data = serde_json::from_str(error.data.as_ref()?.get()).ok()?;
    ProtocolVersion::newest_of(data.supported.iter().map(String::as_str))
}
