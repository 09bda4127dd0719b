use serde::Deserialize;
use serde_json::value::RawValue;

use crate::peer_text::shorten;
use crate::{ProbeStep, ProtocolVersion, TransportKind};

/// Maximum length of a server's name and version, in bytes.
const MAX_NAME_BYTES: usize = 1024;

/// The transport and revision of a connection, and the server's own description.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// The transport that was configured or detected.
    pub transport: TransportKind,
    /// The protocol revision of the connection; `None` if no revision was negotiated.
    pub protocol_version: Option<ProtocolVersion>,
    /// The result of `initialize` or `server/discover` as the server wrote it.
    pub server: Option<Box<RawValue>>,
    /// The requests that were sent to connect, with their outcomes.
    pub steps: Vec<ProbeStep>,
}

/// Identifies a client's open connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenConnection {
    /// Number of connections that the client opened before this one; tells a new connection from an
    /// earlier one.
    pub number: u64,
    /// The protocol revision of the connection; `None` if no revision was negotiated.
    pub protocol_version: Option<ProtocolVersion>,
}

impl ConnectionInfo {
    /// Returns the server's name and version, as the server reports them, each shortened to 1 KiB;
    /// `None` if the server reports no name.
    #[must_use]
    pub fn server_name(&self) -> Option<(String, String)> {
        #[derive(Deserialize)]
        struct Implementation {
            name: String,
            #[serde(default)]
            version: String,
        }
        #[derive(Default, Deserialize)]
        struct Meta {
            #[serde(rename = "io.modelcontextprotocol/serverInfo")]
            server_info: Option<Implementation>,
        }
        #[derive(Deserialize)]
        struct HandshakeResult {
            #[serde(rename = "serverInfo")]
            server_info: Option<Implementation>,
            #[serde(rename = "_meta", default)]
            meta: Meta,
        }
        let result: HandshakeResult = serde_json::from_str(self.server.as_ref()?.get()).ok()?;
        let implementation = result.server_info.or(result.meta.server_info)?;
        let name = shorten(implementation.name, MAX_NAME_BYTES);
        Some((name, shorten(implementation.version, MAX_NAME_BYTES)))
    }
}
