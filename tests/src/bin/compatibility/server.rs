use std::sync::Arc;
use std::time::Duration;

use pillion_mcp_client::{
    Authentication, Callbacks, McpClient, OAuthConfig, ProtocolVersion, ServerConfig,
    ServerConfigError, StdioCommand, TransportKind,
};
use pillion_testkit::Peer;
use serde_json::json;

use crate::browser::{Browser, REDIRECT_URI};
use crate::check::{CHECKS, Outcome, check};
use crate::offer::{self, MODEL_SAYS, Offer};
use crate::table::Row;

/// A real server with one transport.
pub struct Server {
    /// The server's name in `tests/peers`.
    pub name: &'static str,
    /// The package and its version.
    package: &'static str,
    transport: TransportKind,
    credential: Credential,
    offer: &'static Offer,
}

/// The credential that a server requires.
enum Credential {
    None,
    Bearer(&'static str),
    /// A token of the server's authorization server; the client registers itself there.
    OAuth,
}

const EVERYTHING: &str = "npm server-everything 2026.8.31";
const SDK: &str = "npm sdk 1.32.2";
const MCP1: &str = "PyPI mcp 1.30.0";
const MCP2: &str = "PyPI mcp 2.3.0";
const FASTMCP: &str = "PyPI fastmcp 4.1.2";

const REVISIONS: [ProtocolVersion; 5] = [
    ProtocolVersion::V2024_11_05,
    ProtocolVersion::V2025_03_26,
    ProtocolVersion::V2025_06_18,
    ProtocolVersion::V2025_11_25,
    ProtocolVersion::V2026_07_28,
];

const fn http(name: &'static str, package: &'static str, offer: &'static Offer) -> Server {
    Server {
        name,
        package,
        transport: TransportKind::StreamableHttp,
        credential: Credential::None,
        offer,
    }
}

const fn sse(name: &'static str, package: &'static str, offer: &'static Offer) -> Server {
    Server {
        transport: TransportKind::LegacySse,
        ..http(name, package, offer)
    }
}

const fn stdio(name: &'static str, package: &'static str, offer: &'static Offer) -> Server {
    Server {
        transport: TransportKind::Stdio,
        ..http(name, package, offer)
    }
}

/// All servers of `tests/peers`.
pub const SERVERS: &[Server] = &[
    http("everything", EVERYTHING, &offer::EVERYTHING),
    sse("everything-sse", EVERYTHING, &offer::EVERYTHING),
    stdio("everything-stdio", EVERYTHING, &offer::EVERYTHING),
    http("sdk-json", SDK, &offer::SDK_JSON),
    http("sdk-stateless", SDK, &offer::SDK_STATELESS),
    http("sdk-polling", SDK, &offer::SDK_POLLING),
    http("sdk-sessions", SDK, &offer::SDK_SESSIONS),
    Server {
        credential: Credential::OAuth,
        ..http("sdk-oauth", SDK, &offer::SDK_SESSIONS)
    },
    http("sdk-compatible", SDK, &offer::SDK_COMPATIBLE),
    sse("sdk-compatible-sse", SDK, &offer::SDK_COMPATIBLE),
    http("mcp1-http", MCP1, &offer::PYTHON),
    sse("mcp1-sse", MCP1, &offer::PYTHON),
    stdio("mcp1-stdio", MCP1, &offer::PYTHON),
    Server {
        transport: TransportKind::WebSocket,
        ..http("mcp1-websocket", MCP1, &offer::PYTHON)
    },
    http("mcp2-http", MCP2, &offer::PYTHON),
    sse("mcp2-sse", MCP2, &offer::PYTHON),
    stdio("mcp2-stdio", MCP2, &offer::PYTHON),
    http("fastmcp-http", FASTMCP, &offer::PYTHON),
    sse("fastmcp-sse", FASTMCP, &offer::PYTHON),
    stdio("fastmcp-stdio", FASTMCP, &offer::PYTHON),
    Server {
        credential: Credential::Bearer("let-me-in"),
        ..http("fastmcp-bearer", FASTMCP, &offer::PYTHON)
    },
    Server {
        credential: Credential::OAuth,
        ..http("fastmcp-oauth", FASTMCP, &offer::PYTHON)
    },
];

/// A server that clients can connect to.
pub struct Running {
    server: &'static Server,
    instance: Instance,
}

enum Instance {
    Process(Peer),
    /// A command that each client starts.
    Command(StdioCommand),
}

impl Server {
    /// Starts the server. Returns `None` if its packages are not installed.
    pub fn start(&'static self) -> Option<Running> {
        let instance = if self.transport == TransportKind::Stdio {
            let (program, args) = Peer::command(self.name)?;
            let mut command = StdioCommand::new(program);
            command.args = args;
            Instance::Command(command)
        } else {
            Instance::Process(Peer::new(self.name)?)
        };
        Some(Running {
            server: self,
            instance,
        })
    }
}

impl Running {
    /// Runs all checks: with a detected transport, with the pinned transport, and with each pinned
    /// revision.
    pub async fn row(&self) -> Row {
        let server = self.server;
        let mut row = Row::new(server.name, server.package);
        let found = self.client(TransportKind::Auto, None);
        let pinned = self.client(server.transport, None);
        let (Ok(found), Ok(pinned)) = (found, pinned) else {
            row.found = Err("the configuration is refused".to_owned());
            return row;
        };
        row.found = match found.connection().await {
            Ok(info) if info.transport == server.transport => Ok((
                info.transport,
                info.protocol_version.map(ProtocolVersion::as_str),
            )),
            Ok(info) => Err(format!("{:?}", info.transport)),
            Err(error) => Err(error.to_string()),
        };
        for column in CHECKS {
            let mut outcome = check(column, &found, server.offer).await;
            if matches!(outcome, Outcome::Works) {
                outcome = check(column, &pinned, server.offer).await.with("pinned");
            }
            row.checks.push((column, outcome));
        }
        found.disconnect().await;
        pinned.disconnect().await;
        for version in REVISIONS {
            if self.speaks(version).await {
                row.revisions.push(version.as_str());
            }
        }
        row
    }

    /// Returns whether the server responds, and a tool can be called, in exactly this revision.
    async fn speaks(&self, version: ProtocolVersion) -> bool {
        let Ok(client) = self.client(self.server.transport, Some(version)) else {
            return false;
        };
        let call = &self.server.offer.call;
        let called = client.call_tool(call.name, &call.arguments()).await;
        let spoken = client.connection().await.map(|info| info.protocol_version);
        // In revisions without a handshake, this requests the server's revisions.
        let alive = client.ping().await;
        client.disconnect().await;
        called.is_ok() && alive.is_ok() && spoken.is_ok_and(|spoken| spoken == Some(version))
    }

    fn client(
        &self,
        transport: TransportKind,
        version: Option<ProtocolVersion>,
    ) -> Result<McpClient, ServerConfigError> {
        let mut config = match &self.instance {
            Instance::Process(peer) => ServerConfig::new(self.server.name, &peer.url)?,
            Instance::Command(command) => {
                ServerConfig::for_command(self.server.name, command.clone())
            }
        };
        if transport != TransportKind::Auto {
            config.transport = transport;
        }
        config.protocol_version = version;
        config.timeout = Duration::from_secs(20);
        match self.server.credential {
            Credential::None => {}
            Credential::Bearer(token) => config.authentication = Authentication::bearer(token),
            Credential::OAuth => {
                let mut oauth = OAuthConfig::default();
                oauth.redirect_uri = Some(REDIRECT_URI.to_owned());
                config.authentication = Authentication::OAuth(Box::new(oauth));
                config.authorization.prompt = Some(Arc::new(Browser));
            }
        }
        let callbacks = Callbacks::new()
            .on_elicitation(|_| async {
                let content = json!({"name": "Ada", "email": "ada@example.com"});
                Ok(json!({"action": "accept", "content": content}))
            })
            .on_sampling(|_| async {
                let content = json!({"type": "text", "text": MODEL_SAYS});
                Ok(json!({"role": "assistant", "content": content, "model": "none"}))
            });
        Ok(McpClient::with_callbacks(config, callbacks))
    }
}
