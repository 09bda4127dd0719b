use std::sync::Arc;

use pillion_mcp_client::{McpClient, ServerConfig};

use super::own::Listing;
use super::server_requests::ServerRequestRouter;
use crate::calling_client::link::Link;

/// A connection with a server under one credential: the server's own, or a user's. Connections
/// never share a session, server-initiated messages or tool lists.
#[derive(Debug)]
pub(crate) struct UpstreamConnection {
    pub(crate) client: McpClient,
    desk: Arc<ServerRequestRouter>,
    /// The tools that are listed for the user of this connection alone.
    pub(super) listing: tokio::sync::Mutex<Listing>,
}

impl UpstreamConnection {
    /// Creates a connection, without I/O.
    pub(super) fn to(server: ServerConfig) -> Self {
        let desk = Arc::new(ServerRequestRouter::default());
        Self {
            client: McpClient::with_callbacks(server, desk.callbacks()),
            desk,
            listing: tokio::sync::Mutex::default(),
        }
    }

    /// Runs the forwarding of a request, so that server-initiated messages in the meantime reach
    /// the client at `link`. Without a link, they reach no client.
    pub(crate) async fn during<T>(
        &self,
        link: Option<Arc<Link>>,
        passing: impl Future<Output = T>,
    ) -> T {
        self.desk.during(link, passing).await
    }
}
