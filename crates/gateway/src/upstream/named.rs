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

use super::discovery::ListReason;
use super::listing::list_timeout_error;
use super::{CallerTools, Server, UnavailableTool, Upstreams};

/// Permits for `tools/list` requests that continue after the deadline of the call that started the
/// request. A few permits are enough, because later calls wait for these requests instead of
/// starting their own.
static BACKGROUND_PERMITS: Semaphore = Semaphore::const_new(16);

/// Returns the output of `work`, or `None` after `limit`. After `limit`, `work` continues in the
/// background if a permit is free, so that a later call finds the outcome.
async fn run_with_timeout<T>(
    limit: Duration,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let mut work = Box::pin(work);
    if let Ok(output) = timeout(limit, &mut work).await {
        return Some(output);
    }
    if let Ok(permit) = BACKGROUND_PERMITS.try_acquire() {
        let background_work = async move {
            work.await;
            drop(permit);
        };
        tokio::spawn(background_work.in_current_span());
    }
    None
}

impl Upstreams {
    /// Like [`discover_owners`](Self::discover_owners), but treats servers that have not responded
    /// within `limit` as unavailable.
    pub async fn discover_owners_with_timeout(
        self: &Arc<Self>,
        names: &[String],
        limit: Duration,
    ) -> Vec<UnavailableServer> {
        let (upstreams, name_list) = (Arc::clone(self), names.to_vec());
        let discovery = async move { upstreams.discover_owners(&name_list).await };
        let Some(unavailable_servers) = run_with_timeout(limit, discovery).await else {
            let latest = self.latest();
            let is_listing = |server: &Arc<Server>| server.state.try_lock().is_err();
            return latest.unavailable_or_unresponsive_servers(names, limit, is_listing);
        };
        unavailable_servers
    }

    /// Like [`find_user_tools`](Self::find_user_tools), but treats servers that have not responded
    /// within `limit` as unavailable.
    pub async fn find_user_tools_with_timeout(
        self: &Arc<Self>,
        context: &CallContext,
        names: &[String],
        limit: Duration,
    ) -> CallerTools {
        let (upstreams, context) = (Arc::clone(self), context.clone());
        let name_list = names.to_vec();
        let listing = async move { upstreams.find_user_tools(&context, &name_list).await };
        let Some(caller_tools) = run_with_timeout(limit, listing).await else {
            let latest = self.latest();
            let lists_for_user = |server: &Arc<Server>| !server.lists_for_all_users();
            let mut caller_tools = CallerTools::default();
            caller_tools.unavailable_servers =
                latest.unavailable_or_unresponsive_servers(names, limit, lists_for_user);
            return caller_tools;
        };
        caller_tools
    }

    /// Returns the unavailable servers. A server that could have one of the tools `names` and has
    /// not responded within `limit` counts as unavailable.
    fn unavailable_or_unresponsive_servers(
        &self,
        names: &[String],
        limit: Duration,
        is_listing: impl Fn(&Arc<Server>) -> bool,
    ) -> Vec<UnavailableServer> {
        let mut unavailable_servers = self.unavailable_servers();
        let servers = self.servers.iter().filter(|server| {
            let may_have = |name: &String| server.tool_prefix.is_empty() || self.owns(server, name);
            names.iter().any(may_have) && is_listing(server)
        });
        add_unresponsive_servers(&mut unavailable_servers, servers, limit);
        unavailable_servers
    }

    /// Lists the tools of the servers that own one of the names, even after a recent failure. If a
    /// name has no owner, or a server has no prefix, lists the tools of every server whose list is
    /// missing or stale. Returns the servers that failed.
    pub async fn discover_owners(&self, names: &[String]) -> Vec<UnavailableServer> {
        let latest = self.latest();
        let named_servers = latest.servers_owning(names);
        let servers = named_servers.iter();
        join_all(servers.map(|server| latest.list_if_due(server, ListReason::ServerUse))).await;
        let is_named = |name: &String| {
            latest.registry.contains(name)
                || named_servers.iter().any(|server| latest.owns(server, name))
        };
        // All servers are queried if one of them has no prefix, because its tools may have any
        // name.
        let has_any_name = |server: &Arc<Server>| server.tool_prefix.is_empty();
        if names.iter().all(is_named) && !latest.servers.iter().any(has_any_name) {
            return latest.unavailable_servers();
        }
        latest.discover().await
    }

    /// Returns whether the server owns the name.
    pub(super) fn owns(&self, server: &Server, name: &str) -> bool {
        self.owners.owns(&server.label, name)
    }

    /// Returns the servers that own one of the names.
    pub(super) fn servers_owning(&self, names: &[String]) -> Vec<Arc<Server>> {
        let servers = self.servers.iter();
        let owners = servers.filter(|server| names.iter().any(|name| self.owns(server, name)));
        owners.cloned().collect()
    }

    /// Returns the tool with this name as an unavailable tool, if one of `unavailable_servers` owns
    /// the name.
    pub fn unavailable_tool<'a>(
        &self,
        name: &str,
        unavailable_servers: impl IntoIterator<Item = &'a UnavailableServer>,
    ) -> Option<UnavailableTool> {
        let latest = self.latest();
        let mut unavailable_servers = unavailable_servers.into_iter();
        unavailable_servers.find_map(|unavailable_server| {
            let mut servers = latest.servers.iter();
            let server = servers.find(|server| server.label == unavailable_server.label)?;
            latest.owns(server, name).then(|| UnavailableTool {
                origin: server.origin(),
                server: unavailable_server.clone(),
            })
        })
    }
}

impl CallerTools {
    /// Adds tools whose calls always fail, for those of `names` that begin with the prefix of an
    /// unavailable server, so that a composed tool reports why its steps cannot run.
    pub fn add_unavailable_tools(&mut self, upstreams: &Upstreams, names: &[String]) {
        let unavailable_servers = upstreams.latest().unavailable_servers();
        let tools = Arc::make_mut(&mut self.tools);
        for name in names
            .iter()
            .filter(|name| !upstreams.registry.contains(name))
        {
            let servers = unavailable_servers.iter().chain(&self.unavailable_servers);
            let unavailable_tool = upstreams.unavailable_tool(name, servers);
            let tool =
                unavailable_tool.and_then(|tool| RegisteredTool::new(tool.to_tool(name)?).ok());
            if let Some(tool) = tool.filter(|tool| !tools.contains_key(tool.name())) {
                tools.insert(tool.name().clone(), Arc::new(tool));
            }
        }
    }
}

/// Additional time for listing the tools of all servers, beyond the timeout of one request. This
/// time is enough to wait for a request of another client, but not for a further request.
const LIST_GRACE_PERIOD: Duration = Duration::from_millis(500);

impl Upstreams {
    /// Returns the maximum time to list what all servers offer.
    pub fn list_timeout(&self) -> Duration {
        self.discovery_timeout().saturating_add(LIST_GRACE_PERIOD)
    }

    /// Lists the tools of every server whose list is missing or stale: the shared tools and, at the
    /// same time, the caller's per-user tools. Returns the servers that failed, and the per-user
    /// tools. Servers that do not respond within `limit` are unavailable; the requests for shared
    /// tools continue in the background.
    pub async fn list_with_timeout(
        self: &Arc<Self>,
        limit: Duration,
        context: &CallContext,
    ) -> (Vec<UnavailableServer>, CallerTools) {
        let mut unavailable_servers = Vec::new();
        let shared_listing = async {
            let upstreams = Arc::clone(self);
            let discovery = async move { upstreams.discover().await };
            unavailable_servers = match run_with_timeout(limit, discovery).await {
                Some(unavailable_servers) => unavailable_servers,
                None => {
                    let latest = self.latest();
                    let mut unavailable_servers = latest.unavailable_servers();
                    let is_listing = |server: &&Arc<Server>| server.state.try_lock().is_err();
                    let servers = latest.servers.iter().filter(is_listing);
                    add_unresponsive_servers(&mut unavailable_servers, servers, limit);
                    unavailable_servers
                }
            };
        };
        let caller_tools = self
            .caller_tools_with_timeout(limit, context, shared_listing)
            .await;
        (unavailable_servers, caller_tools)
    }
}

/// Adds the servers that have not responded within `limit` to the unavailable servers.
fn add_unresponsive_servers<'a>(
    unavailable_servers: &mut Vec<UnavailableServer>,
    servers: impl Iterator<Item = &'a Arc<Server>>,
    limit: Duration,
) {
    for server in servers {
        let mut others = unavailable_servers.iter();
        if others.all(|other| other.label != server.label) {
            unavailable_servers.push(UnavailableServer {
                label: server.label.clone(),
                error: list_timeout_error(limit),
            });
        }
    }
}
