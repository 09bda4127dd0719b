use std::sync::Arc;

use pillion_core::mcp::{McpClient, ServerConfig};

use super::desk::Desk;
use super::own::Listing;
use crate::calling_client::link::Link;

/// A connection with a server, under one credential: its own, or a user's. Nothing of it is ever
/// another's: neither the session, nor what the server says on it, nor the tools it lists.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) client: McpClient,
    desk: Arc<Desk>,
    /// What it lists, where that is for its user alone.
    pub(super) listing: tokio::sync::Mutex<Listing>,
}

impl Line {
    /// A line to the server; no I/O happens.
    pub(super) fn to(server: ServerConfig) -> Self {
        let desk = Arc::new(Desk::default());
        Self {
            client: McpClient::with_callbacks(server, desk.callbacks()),
            desk,
            listing: tokio::sync::Mutex::default(),
        }
    }

    /// Runs what passes a request on, so that what the server says meanwhile reaches the client
    /// that made it, or, without a link, nobody.
    pub(crate) async fn during<T>(
        &self,
        link: Option<Arc<Link>>,
        passing: impl Future<Output = T>,
    ) -> T {
        self.desk.during(link, passing).await
    }
}
