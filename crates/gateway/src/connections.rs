//! The connection status of MCP servers, and notifications of successful connections.

use parking_lot::RwLock;
use pillion_core::store::Timestamp;
use tokio::sync::broadcast;

/// Maximum number of notifications that wait for a slow subscriber. Each further notification
/// replaces the oldest.
const MAX_WAITING_NOTIFICATIONS: usize = 256;

/// The connection status of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionStatus {
    /// The server has not been used yet, or is no longer used.
    Disconnected,
    /// The tools of the server are being listed for the first time.
    Connecting,
    /// The last `tools/list` request to the server succeeded.
    Connected,
    /// The last `tools/list` request to the server failed.
    Error,
}

impl ConnectionStatus {
    /// Returns the status's name in the REST API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disconnected => "disconnected",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Error => "error",
        }
    }
}

/// The last known state of one MCP server.
#[derive(Debug, Clone, Default)]
pub struct ServerReport {
    /// The label of the server in the configuration.
    pub label: String,
    /// Whether `tools/list` was ever sent to the server.
    pub was_contacted: bool,
    /// The number of listed tools.
    pub tools: usize,
    /// The error of the last `tools/list` request, if that request failed.
    pub error: Option<String>,
    /// Whether a `tools/list` request is in progress.
    pub(crate) is_listing: bool,
    /// The time of the last successful `tools/list` request.
    pub connected_at: Option<Timestamp>,
}

impl ServerReport {
    /// Returns the status that clients see.
    pub fn status(&self) -> ConnectionStatus {
        match (self.was_contacted, &self.error) {
            (_, Some(_)) => ConnectionStatus::Error,
            (true, None) => ConnectionStatus::Connected,
            (false, None) if self.is_listing => ConnectionStatus::Connecting,
            (false, None) => ConnectionStatus::Disconnected,
        }
    }
}

/// A notification that a server has listed its tools.
#[derive(Debug, Clone)]
pub struct ServerConnected {
    /// The label of the connected server.
    pub server: String,
    /// The time at which the server responded to `tools/list`.
    pub at: Timestamp,
}

/// The channel of notifications that servers have connected. Cheap to clone. Notifications without
/// subscribers are discarded.
#[derive(Debug, Clone)]
pub struct Connections(broadcast::Sender<ServerConnected>);

impl Default for Connections {
    fn default() -> Self {
        Self(broadcast::Sender::new(MAX_WAITING_NOTIFICATIONS))
    }
}

impl Connections {
    /// Subscribes to all further notifications.
    pub fn subscribe(&self) -> broadcast::Receiver<ServerConnected> {
        self.0.subscribe()
    }

    pub(crate) fn notify_connected(&self, server: &str) {
        // The error is ignored, because it only means that there is no subscriber.
        let _ = self.0.send(ServerConnected {
            server: server.to_owned(),
            at: Timestamp::now(),
        });
    }
}

/// The public state of a server, which can be read while discovery waits for the server.
#[derive(Debug)]
pub(crate) struct CurrentReport(RwLock<ServerReport>);

impl CurrentReport {
    pub(crate) fn new(label: String) -> Self {
        Self(RwLock::new(ServerReport {
            label,
            ..ServerReport::default()
        }))
    }

    pub(crate) fn get(&self) -> ServerReport {
        self.0.read().clone()
    }

    pub(crate) fn status(&self) -> ConnectionStatus {
        self.0.read().status()
    }

    /// Records a successful `tools/list` with `tool_count` entries.
    pub(crate) fn record_listing(&self, tool_count: usize) {
        let mut report = self.0.write();
        report.was_contacted = true;
        report.tools = tool_count;
        report.error = None;
        report.connected_at = Some(Timestamp::now());
    }

    /// Records a failed `tools/list`.
    pub(crate) fn record_failure(&self, error: String) {
        let mut report = self.0.write();
        report.was_contacted = true;
        report.error = Some(error);
    }

    /// Forgets the outcome of the last `tools/list`.
    pub(crate) fn reset(&self) {
        let mut report = self.0.write();
        report.was_contacted = false;
        report.error = None;
    }

    /// Marks a `tools/list` request as in progress until the returned value is dropped.
    pub(crate) fn begin_request(&self) -> ListRequestGuard<'_> {
        self.0.write().is_listing = true;
        ListRequestGuard(self)
    }
}

/// A `tools/list` request in progress.
pub(crate) struct ListRequestGuard<'a>(&'a CurrentReport);

impl Drop for ListRequestGuard<'_> {
    fn drop(&mut self) {
        self.0.0.write().is_listing = false;
    }
}
