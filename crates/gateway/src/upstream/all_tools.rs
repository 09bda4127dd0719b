//! Lists the tools of all servers for one caller.

use std::sync::Arc;
use std::time::Duration;

use pillion_core::tool::CallContext;
use pillion_wire::UnavailableServer;

use super::listing::not_listed_within;
use super::named::within;
use super::{Own, Server, Upstreams};

/// How much longer than one request to a server a list may take: a list that waits for the request
/// of another client does not wait for a second request.
const LIST_ALLOWANCE: Duration = Duration::from_millis(500);

impl Upstreams {
    /// Returns the maximum time to list what all servers offer.
    pub fn list_timeout(&self) -> Duration {
        self.times.discovery_timeout.saturating_add(LIST_ALLOWANCE)
    }

    /// Lists the tools of every server whose list is missing or stale: the shared tools and, at the
    /// same time, those that only this caller has. Returns the servers that failed, and the
    /// caller's own tools. Servers that do not respond within `limit` are unavailable; requests for
    /// shared tools then go on.
    pub async fn list_within(
        self: &Arc<Self>,
        limit: Duration,
        context: &CallContext,
    ) -> (Vec<UnavailableServer>, Own) {
        let mut unavailable = Vec::new();
        let shared = async {
            let upstreams = Arc::clone(self);
            let discovery = async move { upstreams.discover().await };
            unavailable = match within(limit, discovery).await {
                Some(unavailable) => unavailable,
                None => {
                    let latest = self.latest();
                    let mut unavailable = latest.unavailable();
                    let servers = latest.servers.iter();
                    let is_listing = |server: &&Arc<Server>| server.state.try_lock().is_err();
                    add_unanswered(&mut unavailable, servers.filter(is_listing), limit);
                    unavailable
                }
            };
        };
        let own = self.own_within(limit, context, shared).await;
        (unavailable, own)
    }
}

/// Adds the servers that have not responded within `limit` to those that are unavailable.
pub(super) fn add_unanswered<'a>(
    unavailable: &mut Vec<UnavailableServer>,
    servers: impl Iterator<Item = &'a Arc<Server>>,
    limit: Duration,
) {
    for server in servers {
        if unavailable.iter().all(|other| other.label != server.label) {
            unavailable.push(UnavailableServer {
                label: server.label.clone(),
                error: not_listed_within(limit),
            });
        }
    }
}
