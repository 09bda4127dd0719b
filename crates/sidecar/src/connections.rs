//! How it stands with the MCP servers, and who notes when they answer (F3).

use pillion_core::store::Timestamp;
use tokio::sync::broadcast;

/// Answers that may wait for a slow listener before it misses the oldest.
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

/// A server has answered.
#[derive(Debug, Clone)]
pub(crate) struct Connected {
    /// The server's name.
    pub(crate) server: String,
    /// When.
    pub(crate) at: Timestamp,
}

/// Where it is told and heard that servers answer. Cheap to clone; whoever does not listen
/// costs nothing.
#[derive(Debug, Clone)]
pub(crate) struct Connections(broadcast::Sender<Connected>);

impl Default for Connections {
    fn default() -> Self {
        Self(broadcast::Sender::new(MOST_WAITING))
    }
}

impl Connections {
    /// Every answer from now on. Dropping it ends that.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Connected> {
        self.0.subscribe()
    }

    pub(crate) fn connected(&self, server: &str) {
        // Nobody has to listen.
        let _ = self.0.send(Connected {
            server: server.to_owned(),
            at: Timestamp::now(),
        });
    }
}
