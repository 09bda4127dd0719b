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

/// What is known of one server, for statistics.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerReport {
    pub(crate) label: String,
    /// Whether it was ever asked for its tools.
    pub(crate) was_asked: bool,
    pub(crate) tools: usize,
    /// Why the last try failed.
    pub(crate) error: Option<String>,
    /// Whether it is being asked now.
    pub(crate) is_asked: bool,
    /// When it last answered.
    pub(crate) connected_at: Option<Timestamp>,
}

impl ServerReport {
    /// How it stands with the server (F3).
    pub(crate) fn status(&self) -> ConnectionStatus {
        match (self.was_asked, &self.error) {
            (_, Some(_)) => ConnectionStatus::Error,
            (true, None) => ConnectionStatus::Connected,
            (false, None) if self.is_asked => ConnectionStatus::Connecting,
            (false, None) => ConnectionStatus::Disconnected,
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
