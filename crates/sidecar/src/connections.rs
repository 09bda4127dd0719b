//! What becomes of the connections with MCP servers, for whoever wants to hear of it (F3, F5).

use pillion_core::store::Timestamp;
use tokio::sync::broadcast;

/// Changes that a slow listener may miss before it misses the oldest.
const MOST_WAITING: usize = 256;

/// How it stands with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionStatus {
    /// Nobody has needed it yet, or not any more.
    Disconnected,
    /// It is being asked for its tools, and has never answered.
    Connecting,
    /// It answered the last time.
    Connected,
    /// It failed the last time.
    Error,
}

impl ConnectionStatus {
    /// The status as the API names it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Disconnected => "disconnected",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Error => "error",
        }
    }
}

/// The status of a server has changed.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionChange {
    /// The server's name.
    pub(crate) server: String,
    pub(crate) status: ConnectionStatus,
    /// When.
    pub(crate) at: Timestamp,
}

/// Where changes are told and heard. Cheap to clone; whoever does not listen costs nothing.
#[derive(Debug, Clone)]
pub(crate) struct Connections(broadcast::Sender<ConnectionChange>);

impl Default for Connections {
    fn default() -> Self {
        Self(broadcast::Sender::new(MOST_WAITING))
    }
}

impl Connections {
    /// Every change from now on. Dropping it ends that.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<ConnectionChange> {
        self.0.subscribe()
    }

    pub(crate) fn tell(&self, server: &str, status: ConnectionStatus) {
        tracing::debug!(
            server.label = server,
            status = status.as_str(),
            "A connection"
        );
        // Nobody has to listen.
        let _ = self.0.send(ConnectionChange {
            server: server.to_owned(),
            status,
            at: Timestamp::now(),
        });
    }
}
