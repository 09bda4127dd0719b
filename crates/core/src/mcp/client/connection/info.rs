use serde::Deserialize;
use serde_json::value::RawValue;

use crate::mcp::{ProbeStep, ProtocolVersion, TransportKind};

/// How a server is spoken to, and what it said of itself.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// The transport in use.
    pub transport: TransportKind,
    /// The revision in use; none with a server that was never asked.
    pub protocol_version: Option<ProtocolVersion>,
    /// The result of `initialize` or `server/discover` as the server wrote it.
    pub server: Option<Box<RawValue>>,
    /// What was tried when the connection was made.
    pub steps: Vec<ProbeStep>,
}

/// Which of a client's connections is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenConnection {
    /// How many have been opened before it: the number tells a new one from the last.
    pub number: u64,
    /// The revision in use; none with a server that was never asked.
    pub protocol_version: Option<ProtocolVersion>,
}

impl ConnectionInfo {
    /// The server's name and version, as it calls itself.
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
        struct Hello {
            #[serde(rename = "serverInfo")]
            server_info: Option<Implementation>,
            #[serde(rename = "_meta", default)]
            meta: Meta,
        }
        let hello: Hello = serde_json::from_str(self.server.as_ref()?.get()).ok()?;
        let info = hello.server_info.or(hello.meta.server_info)?;
        Some((info.name, info.version))
    }
}
