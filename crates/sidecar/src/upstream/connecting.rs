//! Servers that are connected and disconnected by hand (F2).

use std::sync::Arc;

use pillion_core::tool::{CallContext, ErrorCode, ToolFailure};

use super::Upstreams;
use super::discovery::Reason;
use super::server::Server;
use crate::connections::ConnectionStatus;

/// Why a server that was disconnected does nothing (E9).
pub(super) const NOT_CONNECTED: &str = "Not connected to server";

pub(super) fn not_connected() -> ToolFailure {
    ToolFailure::new(ErrorCode::Unavailable, NOT_CONNECTED)
}

impl Upstreams {
    /// The server of that label that is in use.
    pub(crate) fn server(&self, label: &str) -> Option<Arc<Server>> {
        let mut servers = self.latest().servers.iter();
        servers.find(|server| server.label == label).cloned()
    }

    /// Ends the sessions with a server, and calls that wait for it; nobody uses it until
    /// [`connect`](Self::connect).
    pub(crate) async fn disconnect_from(&self, server: &Server) {
        if server.close() {
            self.tell_status(server, ConnectionStatus::Disconnected, None);
        }
        server.disconnect().await;
    }

    /// Asks a server for its tools now, whatever is known of it: for everybody's, or for those of
    /// this caller where it lists them for each user. Its report says how it went.
    pub(crate) async fn connect(&self, server: &Server, context: &CallContext) {
        server.open();
        server.expire();
        if let Some(server) = self.server(&server.label) {
            self.latest().ask(&server, Reason::Use).await;
        }
        if !server.lists_for_all() {
            self.own(context).await;
        }
    }
}
