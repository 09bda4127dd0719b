use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pillion_core::registry::RegisteredTool;
use tokio::time::Instant;

use super::connection::UpstreamConnection;
use super::{Server, UpstreamTool};

/// The tools that a server lists on one connection, and the time of the next `tools/list`.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) tools: Vec<UserTool>,
    /// `None` before the first attempt.
    pub(super) next: Option<Instant>,
    /// The server's epoch at the last attempt.
    pub(super) epoch: u64,
    pub(super) error: Option<String>,
    pub(super) failures: u32,
    /// Whether an attempt has succeeded.
    pub(super) has_listed: bool,
    /// When the last attempt failed.
    pub(super) failed_at: Option<Instant>,
}

/// The tool lists of users. Each belongs to a connection under the user's credential, and is removed
/// after that connection is closed.
#[derive(Debug, Default)]
pub(super) struct UserListings {
    /// By the address of the connection, which is unique while the entry exists.
    by_connection: Mutex<HashMap<usize, UserListing>>,
}

#[derive(Debug)]
struct UserListing {
    server: Weak<Server>,
    connection: Weak<UpstreamConnection>,
    listing: Arc<tokio::sync::Mutex<Listing>>,
}

impl UserListings {
    /// Returns the list of the user of a connection.
    pub(super) fn for_connection(
        &self,
        server: &Arc<Server>,
        connection: &Arc<UpstreamConnection>,
    ) -> Arc<tokio::sync::Mutex<Listing>> {
        let mut by_connection = self.by_connection.lock();
        let address = Arc::as_ptr(connection).addr();
        let entry = by_connection.entry(address).or_insert_with(|| UserListing {
            server: Arc::downgrade(server),
            connection: Arc::downgrade(connection),
            listing: Arc::default(),
        });
        Arc::clone(&entry.listing)
    }

    /// Removes the lists of closed connections.
    pub(super) fn remove_closed(&self) {
        let mut by_connection = self.by_connection.lock();
        by_connection.retain(|_, entry| entry.connection.strong_count() > 0);
    }

    /// Removes the lists of a server.
    pub(super) fn forget(&self, server: &Arc<Server>) {
        let mut by_connection = self.by_connection.lock();
        by_connection.retain(|_, entry| !std::ptr::eq(entry.server.as_ptr(), &**server));
    }
}

impl Listing {
    /// Returns whether the server owns one of the names and does not list it.
    pub(super) fn is_missing_any(&self, is_owned: impl Fn(&str) -> bool, names: &[String]) -> bool {
        let lists = |name: &str| {
            self.tools
                .iter()
                .any(|tool| tool.registered.name().as_str() == name)
        };
        let is_missing = |name: &String| is_owned(name) && !lists(name);
        names.iter().any(is_missing)
    }
}

/// A tool that a server lists for one user.
#[derive(Debug, Clone)]
pub(super) struct UserTool {
    pub(super) registered: Arc<RegisteredTool>,
    pub(super) upstream: Arc<UpstreamTool>,
}
