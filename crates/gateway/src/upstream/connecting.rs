//! Servers that are connected and disconnected manually.

use std::sync::Arc;

use pillion_core::tool::CallContext;

use super::Upstreams;
use super::discovery::Reason;
use super::server::Server;
use crate::connections::ConnectionStatus;

impl Upstreams {
    /// Returns the server with this label in the current configuration.
    pub fn server(&self, label: &str) -> Option<Arc<Server>> {
        let mut servers = self.latest().servers.iter();
        servers.find(|server| server.label == label).cloned()
    }

    /// Ends the sessions with a server, and with them the calls that wait for it. The server is not
    /// used until [`connect`](Self::connect).
    pub async fn disconnect_from(&self, server: &Server) {
        if server.close() {
            self.publish_status(server, ConnectionStatus::Disconnected, None);
        }
        server.disconnect().await;
    }

    /// Requests a server's tools now, even if the list is fresh or a request has recently failed:
    /// the shared list, or this caller's list if the server lists tools for each user. The outcome
    /// is in the server's report.
    pub async fn connect(&self, server: &Server, context: &CallContext) {
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
