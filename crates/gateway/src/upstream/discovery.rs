//! Requests the tools of the servers, and registers them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use indexmap::IndexMap;
use pillion_core::tool::ToolName;
use pillion_wire::UnavailableServer;
use tokio::time::{Instant, timeout};

use super::caller_connections::NOT_CONNECTED_MESSAGE;
use super::discovery_state::{DiscoveryState, backoff, time_until_stale};
use super::listing::list_tools;
use super::offer::{CheckedTool, ListedTools, RawTool, check_tools};
use super::server::Server;
use super::{BlockedTool, UpstreamTool, Upstreams};
use crate::connections::ConnectionStatus;
use crate::events::{Event, ToolChanges};

/// Duration above which a `tools/list` request counts as slow. After a slow request, change
/// notifications of the server are ignored for `NOTIFICATION_PAUSE_FACTOR` times the duration of
/// the request, so that a slow server cannot delay all clients permanently.
const SLOW_LIST_THRESHOLD: Duration = Duration::from_millis(250);
const NOTIFICATION_PAUSE_FACTOR: u32 = 10;

/// Why `tools/list` is sent to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListReason {
    /// A client lists the tools of all servers.
    ToolList,
    /// A client uses this server, so `tools/list` is sent even after a recent failure.
    ServerUse,
}

impl Upstreams {
    /// Lists the tools of every server whose list is missing or stale. Returns the servers that
    /// failed.
    pub async fn discover(&self) -> Vec<UnavailableServer> {
        let mut latest = self.latest();
        loop {
            let servers = latest.servers.iter();
            join_all(servers.map(|server| latest.list_if_due(server, ListReason::ToolList))).await;
            latest.has_tried_discovery.store(true, Ordering::Release);
            match latest.successor.get() {
                Some(successor) => latest = successor,
                None => return latest.unavailable_servers(),
            }
        }
    }

    /// Lists a server's tools if necessary. A caller that arrives during a request waits for that
    /// request and for at most one more: the first that starts after the caller's arrival.
    pub(super) async fn list_if_due(&self, server: &Arc<Server>, reason: ListReason) {
        // The ordering is `SeqCst`, so that this read is ordered with `Server::expire` and with the
        // reads below.
        let requests = &server.list_requests;
        let started_requests = requests.last_started.load(Ordering::SeqCst);
        let mut state = server.state.lock().await;
        if state.is_closed || requests.last_finished.load(Ordering::SeqCst) > started_requests {
            return;
        }
        let number = requests.last_started.fetch_add(1, Ordering::SeqCst) + 1;
        if server.has_shared_list() {
            // The stale flag and the change flag stay in `state` until the server responds, because
            // the caller's future may be dropped.
            state.is_stale |= server.take_stale_flag();
            state.has_changed |= server.take_change_flag();
            let is_due = state.is_due(&server.notification_pause);
            if is_due || (reason == ListReason::ServerUse && state.failures > 0) {
                self.send_list_request(server, &mut state, is_due, reason)
                    .await;
            }
        }
        requests.last_finished.store(number, Ordering::SeqCst);
    }

    async fn send_list_request(
        &self,
        server: &Arc<Server>,
        state: &mut DiscoveryState,
        is_due: bool,
        reason: ListReason,
    ) {
        if server.report.status() != ConnectionStatus::Connected {
            self.publish_status(server, ConnectionStatus::Connecting, None);
        }
        let client = &server.shared_connection.client;
        if reason == ListReason::ServerUse {
            client.end_backoff();
        }
        let started_at = Instant::now();
        let result = list_tools(server, client, self.section.discovery_timeout).await;
        let duration = started_at.elapsed();
        self.wait_for_same_prefix(server).await;
        // The server's response is dropped if the server was disconnected in the meantime.
        if server.is_closed() {
            return;
        }
        let rules = server.pin_rules(&self.section);
        if server.listed_names.is_unknown() {
            let pinned_names = self.pins.names(&server.label, rules).await;
            server.listed_names.set_pinned(pinned_names);
        }
        match result {
            Ok(tools) => {
                let tools = Arc::new(tools);
                let (checked_tools, definitions) = check_tools(server, &tools).await;
                let names = definitions.iter().map(|definition| definition.name.clone());
                server.listed_names.add(names);
                let owner = server.pin_owner(None);
                match self
                    .pins
                    .find_blocked_names(owner, rules, definitions)
                    .await
                {
                    Ok(blocked_names) => {
                        if server.is_closed() {
                            return;
                        }
                        self.accept(
                            server,
                            &tools,
                            state,
                            checked_tools,
                            &blocked_names,
                            duration,
                        );
                    }
                    Err(error) => self.record_failure(server, state, error, is_due),
                }
            }
            Err(error) => self.record_failure(server, state, error, is_due),
        }
    }

    /// Waits until the servers that precede `server` in the configuration and have the same tool
    /// prefix have listed their tools: if two servers have a tool with the same name, the server
    /// that is first in the configuration provides it, even if it responds later.
    async fn wait_for_same_prefix(&self, server: &Arc<Server>) {
        let is_other = |other: &&Arc<Server>| !Arc::ptr_eq(other, server);
        let earlier_servers = self.servers.iter().take_while(is_other);
        let has_same_prefix = |other: &&Arc<Server>| other.tool_prefix == server.tool_prefix;
        for earlier_server in earlier_servers.filter(has_same_prefix) {
            // Waiting for the lock has a timeout to prevent a deadlock: during a reload, two
            // configurations share the servers and may lock them in different orders.
            drop(timeout(self.section.discovery_timeout, earlier_server.state.lock()).await);
        }
    }

    /// Returns the servers that were disconnected manually, or whose last `tools/list` request
    /// failed.
    pub(super) fn unavailable_servers(&self) -> Vec<UnavailableServer> {
        let unavailable_servers = self.servers.iter().filter_map(|server| {
            let closed_error = server.is_closed().then(|| NOT_CONNECTED_MESSAGE.to_owned());
            let report = server.report.get();
            Some(UnavailableServer {
                label: report.label,
                error: closed_error.or(report.error)?,
            })
        });
        unavailable_servers.collect()
    }

    pub(super) fn publish_status(
        &self,
        server: &Server,
        status: ConnectionStatus,
        error: Option<&str>,
    ) {
        tracing::debug!(
            server.label = server.label,
            status = status.as_str(),
            "The connection status of an MCP server changed"
        );
        if status == ConnectionStatus::Connected {
            self.listeners.connections.notify_connected(&server.label);
        }
        self.listeners.events.publish(&Event::ServerStatus {
            server: &server.label,
            status: status.as_str(),
            error,
        });
    }

    /// Publishes the differences between the previously and the currently offered tools, if any.
    fn publish_tool_changes(&self, server: &Arc<Server>, tools: &[(ToolName, Arc<UpstreamTool>)]) {
        let offered_tools = self.server_tools.tools.read();
        let previous_tools: IndexMap<&ToolName, &Arc<UpstreamTool>> = offered_tools
            .iter()
            .filter(|(_, tool)| Arc::ptr_eq(tool.server(), server))
            .collect();
        let current_tools: IndexMap<_, _> = tools.iter().map(|(name, tool)| (name, tool)).collect();
        let select_names = |tools: &IndexMap<&'_ ToolName, _>,
                            is_selected: &dyn Fn(&ToolName) -> bool| {
            let names = tools.keys().filter(|name| is_selected(name));
            names.map(ToString::to_string).collect::<Vec<_>>()
        };
        let added_names = select_names(&current_tools, &|name| !previous_tools.contains_key(name));
        let removed_names =
            select_names(&previous_tools, &|name| !current_tools.contains_key(name));
        let changed_names = select_names(&current_tools, &|name| {
            previous_tools
                .get(name)
                .is_some_and(|tool| !tool.is_same(current_tools[name]))
        });
        for name in added_names.iter().chain(&changed_names) {
            let tool_name = ToolName::new(name.as_str()).ok();
            let tool = tool_name.and_then(|name| current_tools.get(&name).copied());
            for warning in tool.map_or(&[][..], |tool| tool.warnings()) {
                tracing::warn!(
                    server.label = server.label,
                    tool.name = name,
                    warning,
                    "The definition of a tool contains hidden text"
                );
            }
        }
        let changes = ToolChanges {
            added_names,
            removed_names,
            changed_names,
        };
        changes.publish(Some(&server.label), &self.registry, &self.listeners.events);
    }

    fn accept(
        &self,
        server: &Arc<Server>,
        raw_tools: &[RawTool],
        state: &mut DiscoveryState,
        tools: Vec<CheckedTool>,
        blocked_names: &HashSet<String>,
        duration: Duration,
    ) {
        if server.report.status() != ConnectionStatus::Connected {
            self.publish_status(server, ConnectionStatus::Connected, None);
        }
        let registration_guard = self.server_tools.registration_lock.lock();
        let listed_tools = ListedTools {
            upstreams: self.latest(),
            server,
            raw_tools,
        };
        let blocked_entries = blocked_names.iter().map(|tool| {
            let (server, tool) = (Arc::clone(server), tool.clone());
            let blocked_tool = BlockedTool { server, tool };
            (blocked_tool.name(), blocked_tool)
        });
        let owners = &listed_tools.upstreams.owners;
        let blocked_by_name: IndexMap<String, BlockedTool> = blocked_entries
            .filter(|(name, _)| owners.may_offer(&server.label, name))
            .collect();
        // A tool is blocked before it is unregistered, so that its name is never unknown.
        let all_blocked_tools = &self.server_tools.blocked_tools;
        all_blocked_tools.write().extend(blocked_by_name.clone());
        let registered_tools = listed_tools.register(tools, blocked_names, &state.tools);
        all_blocked_tools.write().retain(|name, other| {
            !Arc::ptr_eq(&other.server, server) || blocked_by_name.contains_key(name)
        });
        let registered_names = registered_tools.iter().map(|(name, _)| name.clone());
        let names = registered_names.collect();
        self.publish_tool_changes(server, &registered_tools);
        {
            let mut offered_tools = self.server_tools.tools.write();
            offered_tools.retain(|_, tool| !Arc::ptr_eq(tool.server(), server));
            offered_tools.extend(registered_tools);
        }
        drop(registration_guard);
        // The first request includes connecting, and does not count as slow.
        let is_slow = duration > SLOW_LIST_THRESHOLD && state.next_request_at.is_some();
        let paused_until = is_slow.then(|| Instant::now() + duration * NOTIFICATION_PAUSE_FACTOR);
        server.notification_pause.set(paused_until);
        *state = DiscoveryState {
            tools: names,
            next_request_at: Some(Instant::now() + time_until_stale(&self.section)),
            ..DiscoveryState::default()
        };
        let tools = state.tools.len();
        server.report.record_listing(tools);
        tracing::info!(
            server.label = server.label,
            tools,
            "MCP server `{}` offers {tools} tools",
            server.label
        );
    }

    /// Records a failed `tools/list` request. If `was_due` is false, the request was made only for
    /// a call, and the failure does not delay the next request for clients that list tools.
    fn record_failure(
        &self,
        server: &Server,
        state: &mut DiscoveryState,
        error: String,
        was_due: bool,
    ) {
        // Consecutive failures with the same error are logged only once.
        if server.report.get().error.as_ref() != Some(&error) {
            self.publish_status(server, ConnectionStatus::Error, Some(&error));
            tracing::warn!(server.label = server.label, %error, "Failed to list MCP tools");
        }
        server.report.record_failure(error);
        if !was_due {
            return;
        }
        state.is_stale = false;
        state.next_request_at = Some(Instant::now() + backoff(&self.section, state.failures));
        state.failures += 1;
    }
}
