//! Finds the servers of unknown tools by the tools' names.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::CallContext;
use pillion_deadline::timeout;
use pillion_wire::UnavailableServer;
use tokio::sync::Semaphore;
use tracing::Instrument;

use super::discovery::Reason;
use super::listing::not_listed_within;
use super::{Absent, Own, Server, Upstreams};

/// Permits for requests for tools that continue after the deadlines of the calls that began them. A
/// few are enough: later calls wait for these requests instead of starting their own.
static CONTINUED: Semaphore = Semaphore::const_new(16);

/// Returns the output of `work`, or `None` after `limit`. Then `work` continues without its caller,
/// so that a later call finds the outcome.
async fn within<T>(limit: Duration, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
    let mut work = Box::pin(work);
    if let Ok(done) = timeout(limit, &mut work).await {
        return Some(done);
    }
    if let Ok(permit) = CONTINUED.try_acquire() {
        let continued = async move {
            work.await;
            drop(permit);
        };
        tokio::spawn(continued.in_current_span());
    }
    None
}

impl Upstreams {
    /// As [`discover_named`](Self::discover_named), within `limit`: servers that have not responded
    /// by then are unavailable.
    pub async fn discover_named_within(
        self: &Arc<Self>,
        names: &[String],
        limit: Duration,
    ) -> Vec<UnavailableServer> {
        let (upstreams, sought) = (Arc::clone(self), names.to_vec());
        let discovery = async move { upstreams.discover_named(&sought).await };
        let Some(unavailable) = within(limit, discovery).await else {
            let latest = self.latest();
            let is_listing = |server: &Arc<Server>| server.state.try_lock().is_err();
            return latest.unanswered(names, limit, is_listing);
        };
        unavailable
    }

    /// As [`user_tools_named`](Self::user_tools_named), within `limit`: servers that have not
    /// responded by then are unavailable.
    pub async fn user_tools_named_within(
        self: &Arc<Self>,
        context: &CallContext,
        names: &[String],
        limit: Duration,
    ) -> Own {
        let (upstreams, context) = (Arc::clone(self), context.clone());
        let sought = names.to_vec();
        let listing = async move { upstreams.user_tools_named(&context, &sought).await };
        let Some(own) = within(limit, listing).await else {
            let latest = self.latest();
            let lists_for_user = |server: &Arc<Server>| !server.lists_for_all();
            let mut own = Own::default();
            own.unavailable = latest.unanswered(names, limit, lists_for_user);
            return own;
        };
        own
    }

    /// Returns the unavailable servers, and those servers without a response within `limit` that
    /// may have one of the tools `names`.
    fn unanswered(
        &self,
        names: &[String],
        limit: Duration,
        is_listing: impl Fn(&Arc<Server>) -> bool,
    ) -> Vec<UnavailableServer> {
        let mut unavailable = self.unavailable();
        let servers = self.servers.iter().filter(|server| {
            let may_have = |name: &String| server.tool_prefix.is_empty() || self.owns(server, name);
            names.iter().any(may_have) && is_listing(server)
        });
        add_unanswered(&mut unavailable, servers, limit);
        unavailable
    }

    /// Lists the tools of the servers that own one of the names, even after a recent failure. If a
    /// name has no owner, or a server has no prefix, lists the tools of every server whose list is
    /// missing or stale. Returns the servers that failed.
    pub async fn discover_named(&self, names: &[String]) -> Vec<UnavailableServer> {
        let latest = self.latest();
        let named = latest.owners_of(names);
        join_all(named.iter().map(|server| latest.ask(server, Reason::Use))).await;
        let is_named = |name: &String| {
            latest.registry.contains(name) || named.iter().any(|server| latest.owns(server, name))
        };
        // Without a prefix, the tools of a server may have any name.
        let has_any_name = |server: &Arc<Server>| server.tool_prefix.is_empty();
        if names.iter().all(is_named) && !latest.servers.iter().any(has_any_name) {
            return latest.unavailable();
        }
        latest.discover().await
    }

    /// Returns whether the server owns the name.
    pub(super) fn owns(&self, server: &Server, name: &str) -> bool {
        self.owners.owns(&server.label, name)
    }

    /// Returns the servers that own one of the names.
    pub(super) fn owners_of(&self, names: &[String]) -> Vec<Arc<Server>> {
        let servers = self.servers.iter();
        servers
            .filter(|server| names.iter().any(|name| self.owns(server, name)))
            .cloned()
            .collect()
    }

    /// Returns the tool with this name as an absent tool, if one of these unavailable servers owns
    /// the name.
    pub fn absent<'a>(
        &self,
        name: &str,
        unavailable: impl IntoIterator<Item = &'a UnavailableServer>,
    ) -> Option<Absent> {
        let latest = self.latest();
        let mut unavailable = unavailable.into_iter();
        unavailable.find_map(|unavailable| {
            let mut servers = latest.servers.iter();
            let server = servers.find(|server| server.label == unavailable.label)?;
            latest.owns(server, name).then(|| Absent {
                origin: server.origin(),
                server: unavailable.clone(),
            })
        })
    }
}

impl Own {
    /// For a composed tool: adds failing tools for those names that begin with the prefix of an
    /// unavailable server.
    pub fn add_unavailable(&mut self, upstreams: &Upstreams, names: &[String]) {
        let unavailable = upstreams.latest().unavailable();
        let tools = Arc::make_mut(&mut self.tools);
        for name in names
            .iter()
            .filter(|name| !upstreams.registry.contains(name))
        {
            let absent = upstreams.absent(name, unavailable.iter().chain(&self.unavailable));
            let tool = absent
                .and_then(|absent| absent.to_tool(name))
                .and_then(|tool| RegisteredTool::new(tool).ok());
            if let Some(tool) = tool.filter(|tool| !tools.contains_key(tool.name())) {
                tools.insert(tool.name().clone(), Arc::new(tool));
            }
        }
    }
}

/// Allowance of a list beyond the timeout of one request to a server. A list that waits for another
/// client's request does not wait for a second request.
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

/// Adds the servers that have not responded within `limit` to the unavailable servers.
fn add_unanswered<'a>(
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
