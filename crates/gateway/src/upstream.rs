//! The MCP servers whose tools the sidecar offers as its own.
//!
//! No `tools/list` is sent at start-up. When a client lists tools, the sidecar sends `tools/list`
//! to every server whose list is missing or stale, concurrently and with a deadline. For a call to
//! an unknown tool, the sidecar sends `tools/list` to the server whose prefix the tool's name
//! begins with, or to every server if the name has no server's prefix. Callers that arrive during a
//! request wait until that request has ended, and then share one further request.
//!
//! For `retry_after` after a failure, clients that list tools get the server's known tools without
//! a request to the server, even if the server has reported a changed list. A call to a tool of the
//! server still causes a request. A failed server does not affect other servers.

mod absent;
mod caller_connections;
mod caller_tools;
mod discovery;
mod discovery_state;
mod entries;
mod listing;
mod name_owners;
mod named;
mod offer;
pub mod resources;
mod server;
pub(crate) mod tool;
mod unprefixed_names;
mod visible_servers;

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use indexmap::IndexMap;
use parking_lot::{Mutex, RwLock};
use pillion_core::registry::{RegisteredTool, ToolRegistry};
use pillion_core::tool::{CallContext, ToolName, ToolOrigin};
use pillion_mcp_client::McpLogLevel;
use pillion_mcp_tools::registered_name;

use crate::connections::{ConnectionStatus, Connections, ServerReport};
use crate::credentials::UserCredentials;
use crate::events::{EventBus, ToolChanges};
use crate::pins::Pins;
use crate::telemetry::Telemetry;
pub use absent::UnavailableTool;
pub use caller_connections::{CallerConnections, IDLE_CHECK_INTERVAL};
pub use caller_tools::CallerTools;
use caller_tools::UserListings;
use discovery::ListReason;
pub use entries::{EntryChecker, OfferedEntry};
use name_owners::NameOwners;
use pillion_config::{McpSection, McpServerSection, OfferedTools};
pub use server::Server;
pub use tool::UpstreamTool;
pub use visible_servers::VisibleServers;

/// The parts of the sidecar that are notified when servers or their tools change.
#[derive(Debug, Clone)]
pub struct Listeners {
    /// Publishes changes of tools and of server statuses.
    pub events: Arc<EventBus>,
    /// Publishes successful connections.
    pub connections: Connections,
    /// Creates spans, if telemetry is enabled.
    pub telemetry: Option<Arc<Telemetry>>,
}

/// All enabled MCP servers of the configuration.
#[derive(Debug)]
pub struct Upstreams {
    servers: Vec<Arc<Server>>,
    owners: NameOwners,
    /// The offered tools, shared with the `Upstreams` of all later configurations.
    server_tools: Arc<ServerTools>,
    /// The lowest log level that a client has requested; `u8::MAX` if no client has.
    log_level: AtomicU8,
    registry: Arc<ToolRegistry>,
    /// The timeouts and the pin rules of the configuration.
    section: McpSection,
    listeners: Listeners,
    pins: Pins,
    credentials: UserCredentials,
    /// Whether `tools/list` was sent to every server at least once.
    has_tried_discovery: AtomicBool,
    /// The `Upstreams` of the next configuration. A request that still holds an earlier `Upstreams`
    /// uses the latest one.
    successor: OnceLock<Arc<Self>>,
}

/// The offered tools of the servers in the current configuration.
#[derive(Debug, Default)]
struct ServerTools {
    /// The registered tools of the servers.
    tools: RwLock<IndexMap<ToolName, Arc<UpstreamTool>>>,
    /// Blocked tools, by the names under which they would be registered.
    blocked_tools: RwLock<IndexMap<String, BlockedTool>>,
    /// Tools that are offered to one user each, and are not registered.
    user_listings: UserListings,
    /// Locked while tools are registered according to the current `NameOwners`, and while a
    /// configuration with other owners is applied.
    registration_lock: Mutex<()>,
}

impl ServerTools {
    /// Removes the tools of a server that is no longer used.
    fn forget(&self, removed_server: &Arc<Server>) {
        let mut tools = self.tools.write();
        tools.retain(|_, tool| !Arc::ptr_eq(tool.server(), removed_server));
        let mut blocked_tools = self.blocked_tools.write();
        blocked_tools.retain(|_, blocked_tool| !Arc::ptr_eq(&blocked_tool.server, removed_server));
        self.user_listings.forget(removed_server);
    }
}

/// A tool that is not offered because it was changed, renamed or added since the server's tools
/// were accepted.
#[derive(Debug, Clone)]
pub struct BlockedTool {
    server: Arc<Server>,
    /// The tool's name on the server.
    tool: String,
}

impl BlockedTool {
    /// Returns why a call of the tool is rejected, and how to accept the change.
    pub fn reason(&self, name: &str) -> String {
        let (server, tool) = (&self.server.label, &self.tool);
        format!(
            "Tool '{name}' is blocked: the MCP server has changed, renamed or added the tool since \
             the server's tools were accepted. See `pillion pins diff {server} {tool}`, and accept \
             the tool with `pillion pins accept {server} {tool}`"
        )
    }

    /// Returns the name under which the tool would be registered.
    pub fn name(&self) -> String {
        registered_name(&self.server.tool_prefix, &self.tool)
    }

    /// Returns the origin that the tool would have if it were offered.
    pub fn origin(&self) -> ToolOrigin {
        self.server.origin()
    }
}

impl Upstreams {
    /// Creates the enabled servers without connecting to them.
    pub fn new(
        servers: &[McpServerSection],
        section: McpSection,
        registry: Arc<ToolRegistry>,
        listeners: Listeners,
        pins: Pins,
        credentials: UserCredentials,
    ) -> Self {
        let owners = NameOwners::new(servers);
        let new_server = |section| Arc::new(Server::new(section, &listeners, &credentials));
        let enabled_sections = servers.iter().filter(|section| section.settings.enabled);
        let servers: Vec<_> = enabled_sections.map(new_server).collect();
        Self {
            has_tried_discovery: AtomicBool::new(servers.is_empty()),
            servers,
            owners,
            server_tools: Arc::default(),
            log_level: AtomicU8::new(u8::MAX),
            registry,
            section,
            listeners,
            pins,
            credentials,
            successor: OnceLock::new(),
        }
    }

    /// Returns the `Upstreams` of the latest configuration: `self`, or the one that replaced `self`
    /// after one or more reloads.
    fn latest(&self) -> &Self {
        let mut latest = self;
        while let Some(successor) = latest.successor.get() {
            latest = successor;
        }
        latest
    }

    /// Returns the label of each server, and whether the server lists the same tools for all users.
    pub fn listings(&self) -> impl Iterator<Item = (String, bool)> {
        let servers = self.servers.iter();
        servers.map(|server| (server.label.clone(), server.lists_for_all_users()))
    }

    /// Returns the servers, in the order of the configuration.
    pub fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// Returns the timeout for listing what a server offers.
    pub fn discovery_timeout(&self) -> Duration {
        self.section.discovery_timeout
    }

    /// Returns the filter of the tools that MCP clients are offered.
    pub fn tools_for_clients(&self) -> &OfferedTools {
        &self.section.tools
    }

    /// Returns the registered tools of all servers.
    pub fn tools(&self) -> IndexMap<ToolName, Arc<UpstreamTool>> {
        let mut tools = self.server_tools.tools.read().clone();
        tools.retain(|name, tool| self.is_registered(name, tool));
        tools
    }

    /// Returns whether `name` is still registered for a tool of the server that offers `tool`. A
    /// tool of the configuration may have taken the name in the meantime.
    fn is_registered(&self, name: &ToolName, tool: &UpstreamTool) -> bool {
        let holder = self.registry.get(name.as_str());
        holder.is_some_and(|holder| tool.server().is_origin(holder.origin()))
    }

    /// Returns the total size, in bytes, of the `tools/list` entries of all registered MCP server
    /// tools.
    pub fn listed_bytes(&self) -> usize {
        let tools = self.server_tools.tools.read();
        tools.values().map(|tool| tool.listed_bytes()).sum()
    }

    /// Sorts the tools of servers into the order of the configuration, regardless of the order in
    /// which the servers listed their tools. Other tools stay at their positions in `tools`.
    pub fn sort_by_config(&self, tools: &mut [Arc<RegisteredTool>]) {
        let servers = &self.latest().servers;
        let rank = |tool: &Arc<RegisteredTool>| match tool.origin() {
            ToolOrigin::Mcp { server_label, .. } => servers
                .iter()
                .position(|server| server.label == *server_label),
            _ => None,
        };
        let (indices, mut server_tools): (Vec<_>, Vec<_>) = tools
            .iter()
            .enumerate()
            .filter_map(|(index, tool)| Some((index, (rank(tool)?, Arc::clone(tool)))))
            .unzip();
        server_tools.sort_by_key(|(rank, _)| *rank);
        for (index, (_, tool)) in indices.into_iter().zip(server_tools) {
            tools[index] = tool;
        }
    }

    /// Returns the blocked tool with this name. The server's prefix may be omitted if the
    /// configuration sets no prefix for the server and no other blocked tool has the name.
    pub fn find_blocked_tool(&self, name: &str) -> Option<BlockedTool> {
        let blocked_tools = self.server_tools.blocked_tools.read();
        if let Some(blocked_tool) = blocked_tools.get(name) {
            return Some(blocked_tool.clone());
        }
        let mut matches = blocked_tools.values().filter(|blocked_tool| {
            blocked_tool.tool == name && blocked_tool.server.configured_prefix.is_none()
        });
        let blocked_tool = matches.next()?;
        matches.next().is_none().then(|| blocked_tool.clone())
    }

    /// Marks the tool list of the server with this label as stale, so that the next discovery
    /// requests the list again.
    pub fn expire(&self, label: &str) {
        if let Some(server) = self.servers.iter().find(|server| server.label == label) {
            server.expire();
        }
    }

    /// Requests log messages of at least `level` from every server, unless a client has already
    /// requested `level` or a lower level. Does not wait for the servers.
    pub fn request_log_level(&self, level: McpLogLevel) {
        if self.log_level.fetch_min(level as u8, Ordering::Relaxed) <= level as u8 {
            return;
        }
        for server in self
            .servers
            .iter()
            .filter(|server| server.lists_for_all_users())
        {
            let server = Arc::clone(server);
            tokio::spawn(async move {
                if let Err(error) = server.shared_connection.client.set_log_level(level).await {
                    tracing::debug!(
                        server.label = server.label, %error,
                        "Cannot set the log level of an MCP server"
                    );
                }
            });
        }
    }

    /// Returns the servers of a new configuration. A server whose entry is unchanged keeps its
    /// sessions and tools; the tools of changed and removed servers are unregistered at once.
    /// Running calls continue. Waits for requests of [`discover`](Self::discover) that are in
    /// progress on removed servers.
    pub async fn reload(&self, servers: &[McpServerSection], section: McpSection) -> Arc<Self> {
        let mut unmatched_servers: Vec<_> = self.servers.iter().collect();
        let mut new_servers = Vec::new();
        for section in servers.iter().filter(|section| section.settings.enabled) {
            let mut unmatched = unmatched_servers.iter();
            let index = unmatched.position(|server| server.section.has_same_content(section));
            new_servers.push(match index {
                Some(index) => Arc::clone(unmatched_servers.remove(index)),
                None => Arc::new(Server::new(section, &self.listeners, &self.credentials)),
            });
        }
        for removed_server in unmatched_servers {
            self.publish_status(removed_server, ConnectionStatus::Disconnected, None);
            // Locking the state waits until a request in progress has registered its tools. After
            // the server is closed, no further `tools/list` is sent.
            let mut state = removed_server.state.lock().await;
            let names = state.close();
            removed_server.unregister(names.iter().map(ToolName::as_str), &self.registry);
            self.server_tools.forget(removed_server);
        }
        if (section.pin, section.new_tools) != (self.section.pin, self.section.new_tools) {
            new_servers.iter().for_each(|server| server.expire());
        }
        let has_tried_discovery = new_servers
            .iter()
            .all(|server| server.report.get().was_contacted || !server.has_shared_list());
        let successor = Arc::new(Self {
            has_tried_discovery: AtomicBool::new(has_tried_discovery),
            servers: new_servers,
            owners: NameOwners::new(servers),
            server_tools: Arc::clone(&self.server_tools),
            // The lowest requested log level starts unset, so that the next log-level request of a
            // client sets the level at all servers again.
            log_level: AtomicU8::new(u8::MAX),
            registry: Arc::clone(&self.registry),
            section,
            listeners: self.listeners.clone(),
            pins: self.pins.clone(),
            credentials: self.credentials.clone(),
            successor: OnceLock::new(),
        });
        let registration_guard = self.server_tools.registration_lock.lock();
        let _ = self.successor.set(Arc::clone(&successor));
        successor.release_names();
        drop(registration_guard);
        successor
    }

    /// Unregisters the tools whose names belong to other servers in this configuration. Also marks
    /// the tool lists of servers with name conflicts as stale, so that the tools of these servers
    /// can be registered under the released names.
    fn release_names(&self) {
        let is_owner = |label: &str, name: &str| self.owners.may_offer(label, name);
        let mut blocked_tools = self.server_tools.blocked_tools.write();
        blocked_tools.retain(|name, blocked_tool| is_owner(&blocked_tool.server.label, name));
        drop(blocked_tools);
        let mut tools = self.server_tools.tools.write();
        let released_tools: Vec<_> = tools
            .extract_if(.., |name, tool| {
                !is_owner(&tool.server().label, name.as_str())
            })
            .collect();
        drop(tools);
        for (name, tool) in &released_tools {
            let server = tool.server();
            server.unregister([name.as_str()], &self.registry);
            let changes = ToolChanges {
                removed_names: vec![name.to_string()],
                ..ToolChanges::default()
            };
            changes.publish(Some(&server.label), &self.registry, &self.listeners.events);
        }
        for server in self
            .servers
            .iter()
            .filter(|server| server.take_name_conflict())
        {
            server.expire();
        }
        for (_, tool) in &released_tools {
            tool.server().record_name_conflict();
        }
    }

    /// Returns whether `tools/list` was sent to every server at least once; `true` without servers.
    pub fn has_tried_discovery(&self) -> bool {
        self.has_tried_discovery.load(Ordering::Acquire)
    }

    /// Returns the current report of each server.
    pub fn reports(&self) -> Vec<ServerReport> {
        let servers = self.servers.iter();
        servers.map(|server| server.report.get()).collect()
    }

    /// Returns the prefix of a server's tool names; empty for an unknown label.
    pub fn tool_prefix(&self, label: &str) -> &str {
        let servers = &self.latest().servers;
        let server = servers.iter().find(|server| server.label == label);
        server.map_or("", |server| &server.tool_prefix)
    }

    /// Returns the server with this label in the current configuration.
    pub fn server(&self, label: &str) -> Option<Arc<Server>> {
        let mut servers = self.latest().servers.iter();
        servers.find(|server| server.label == label).cloned()
    }

    /// Ends the sessions with a server, which also ends the calls that wait for the server. The
    /// server is not used until [`connect`](Self::connect) is called.
    pub async fn disconnect_server(&self, server: &Server) {
        if server.close() {
            self.publish_status(server, ConnectionStatus::Disconnected, None);
        }
        server.disconnect().await;
    }

    /// Requests a server's tool list now, even if the cached list is fresh or a request has
    /// recently failed. Requests the shared list, or this caller's list if the server lists tools
    /// for each user. The server's entry in the status report shows the outcome.
    pub async fn connect(&self, server: &Server, context: &CallContext) {
        server.open();
        server.expire();
        if let Some(server) = self.server(&server.label) {
            self.latest()
                .list_if_due(&server, ListReason::ServerUse)
                .await;
        }
        if !server.lists_for_all_users() {
            self.caller_tools(context).await;
        }
    }

    /// Ends the sessions with all servers.
    pub async fn disconnect(&self) {
        join_all(self.servers.iter().map(|server| server.disconnect())).await;
    }

    /// Returns the servers that `self` has and `other_upstreams` does not have.
    pub fn servers_missing_from(&self, other_upstreams: &Self) -> RemovedServers {
        let others = &other_upstreams.servers;
        let is_gone =
            |server: &&Arc<Server>| !others.iter().any(|other| Arc::ptr_eq(server, other));
        RemovedServers(self.servers.iter().filter(is_gone).cloned().collect())
    }
}

/// Servers that were removed from the configuration.
#[derive(Debug)]
pub struct RemovedServers(Vec<Arc<Server>>);

impl RemovedServers {
    /// Ends the sessions with the removed servers.
    pub async fn disconnect(&self) {
        join_all(self.0.iter().map(|server| server.disconnect())).await;
    }
}
