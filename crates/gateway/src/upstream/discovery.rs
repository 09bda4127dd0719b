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
use super::{Blocked, UpstreamTool, Upstreams};
use crate::connections::ConnectionStatus;
use crate::events::{Event, ToolChanges};

/// Maximum duration of a `tools/list` request after which change notifications of the server are
/// honored at once. After a slower response, notifications are ignored for `BACKOFF_FACTOR` times
/// the duration of the request, so that a slow server cannot delay all clients permanently.
const SLOW_LIST_THRESHOLD: Duration = Duration::from_millis(250);
const BACKOFF_FACTOR: u32 = 10;

/// Why `tools/list` is sent to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// A client lists the tools of all servers.
    List,
    /// A client uses this server: `tools/list` is sent even after a recent failure.
    Use,
}

impl Upstreams {
    /// Lists the tools of every server whose list is missing or stale. Returns the servers that
    /// failed.
    pub async fn discover(&self) -> Vec<UnavailableServer> {
        let mut latest = self.latest();
        loop {
            let servers = latest.servers.iter();
            join_all(servers.map(|server| latest.ask(server, Reason::List))).await;
            latest.was_tried.store(true, Ordering::Release);
            match latest.successor.get() {
                Some(successor) => latest = successor,
                None => return latest.unavailable(),
            }
        }
    }

    /// Lists a server's tools if necessary. A caller that arrives during a request waits for that
    /// request and for at most one more: the first that starts after the caller's arrival.
    pub(super) async fn ask(&self, server: &Arc<Server>, reason: Reason) {
        // `SeqCst`, so that this read is ordered with `Server::expire` and with the reads below.
        let begun = server.list_requests.begun.load(Ordering::SeqCst);
        let mut state = server.state.lock().await;
        if state.is_closed || server.list_requests.ended.load(Ordering::SeqCst) > begun {
            return;
        }
        let number = server.list_requests.begun.fetch_add(1, Ordering::SeqCst) + 1;
        if server.has_shared_list() {
            // Kept in `state` until the server responds, because the caller's future may be
            // dropped.
            state.is_stale |= server.take_stale_flag();
            state.has_changed |= server.take_change_flag();
            let is_due = state.is_due(&server.notification_pause);
            if is_due || (reason == Reason::Use && state.failures > 0) {
                self.send_list_request(server, &mut state, is_due, reason)
                    .await;
            }
        }
        server.list_requests.ended.store(number, Ordering::SeqCst);
    }

    async fn send_list_request(
        &self,
        server: &Arc<Server>,
        state: &mut DiscoveryState,
        is_due: bool,
        reason: Reason,
    ) {
        if server.report.status() != ConnectionStatus::Connected {
            self.publish_status(server, ConnectionStatus::Connecting, None);
        }
        let client = &server.shared.client;
        if reason == Reason::Use {
            client.end_pause();
        }
        let since = Instant::now();
        let listed = list_tools(server, client, self.times.discovery_timeout).await;
        let took = since.elapsed();
        self.wait_for_same_prefix(server).await;
        // The server may have been disconnected in the meantime.
        if server.is_closed() {
            return;
        }
        let rules = server.pin_rules(&self.times);
        if server.listed_names.is_unknown() {
            let pinned = self.pins.names(&server.label, rules).await;
            server.listed_names.set_pinned(pinned);
        }
        match listed {
            Ok(tools) => {
                let tools = Arc::new(tools);
                let (checked, definitions) = check_tools(server, &tools).await;
                let names = definitions.iter().map(|definition| definition.name.clone());
                server.listed_names.add(names);
                let pinned = server.pinned(None);
                match self.pins.blocked(pinned, rules, definitions).await {
                    Ok(blocked) => {
                        if server.is_closed() {
                            return;
                        }
                        self.accept(server, &tools, state, checked, &blocked, took);
                    }
                    Err(error) => self.record_failure(server, state, error, is_due),
                }
            }
            Err(error) => self.record_failure(server, state, error, is_due),
        }
    }

    /// Waits until the earlier servers with the same tool prefix have listed their tools: if two
    /// servers have a tool of one name, the first server in the configuration provides it,
    /// whichever responds first.
    async fn wait_for_same_prefix(&self, server: &Arc<Server>) {
        let before = self
            .servers
            .iter()
            .take_while(|other| !Arc::ptr_eq(other, server));
        for other in before.filter(|other| other.tool_prefix == server.tool_prefix) {
            // With a timeout, because another configuration may order the servers differently.
            drop(timeout(self.times.discovery_timeout, other.state.lock()).await);
        }
    }

    /// Returns the servers whose last request failed.
    pub(super) fn unavailable(&self) -> Vec<UnavailableServer> {
        let servers = self.servers.iter();
        servers
            .filter_map(|server| {
                let closed = server.is_closed().then(|| NOT_CONNECTED_MESSAGE.to_owned());
                let report = server.report.get();
                Some(UnavailableServer {
                    label: report.label,
                    error: closed.or(report.error)?,
                })
            })
            .collect()
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
            self.listeners.connections.connected(&server.label);
        }
        self.listeners.events.publish(&Event::ServerStatus {
            server: &server.label,
            status: status.as_str(),
            error,
        });
    }

    /// Publishes the differences to the previously offered tools, if any.
    fn publish_tool_changes(
        &self,
        server: &Arc<Server>,
        registered: &[(ToolName, Arc<UpstreamTool>)],
    ) {
        let known = self.offered.tools.read();
        let before: IndexMap<&ToolName, &Arc<UpstreamTool>> = known
            .iter()
            .filter(|(_, tool)| Arc::ptr_eq(tool.server(), server))
            .collect();
        let now: IndexMap<&ToolName, &Arc<UpstreamTool>> =
            registered.iter().map(|(name, tool)| (name, tool)).collect();
        let names = |of: &IndexMap<&'_ ToolName, _>, is_meant: &dyn Fn(&ToolName) -> bool| {
            let names = of.keys().filter(|name| is_meant(name));
            names.map(ToString::to_string).collect::<Vec<_>>()
        };
        let added = names(&now, &|name| !before.contains_key(name));
        let removed = names(&before, &|name| !now.contains_key(name));
        let changed = names(&now, &|name| {
            before
                .get(name)
                .is_some_and(|tool| !tool.is_same(now[name]))
        });
        for name in added.iter().chain(&changed) {
            let name_now = ToolName::new(name.as_str()).ok();
            let tool = name_now.and_then(|name| now.get(&name).copied());
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
            added,
            removed,
            changed,
        };
        changes.publish(Some(&server.label), &self.registry, &self.listeners.events);
    }

    fn accept(
        &self,
        server: &Arc<Server>,
        raw: &[RawTool],
        state: &mut DiscoveryState,
        tools: Vec<CheckedTool>,
        blocked: &HashSet<String>,
        took: Duration,
    ) {
        if server.report.status() != ConnectionStatus::Connected {
            self.publish_status(server, ConnectionStatus::Connected, None);
        }
        let registration = self.offered.registration.lock();
        let offer = ListedTools {
            upstreams: self.latest(),
            server,
            raw,
        };
        let now_blocked = blocked.iter().map(|tool| {
            let (server, tool) = (Arc::clone(server), tool.clone());
            let blocked = Blocked { server, tool };
            (blocked.name(), blocked)
        });
        let owners = &offer.upstreams.owners;
        let now_blocked: IndexMap<String, Blocked> = now_blocked
            .filter(|(name, _)| owners.may_offer(&server.label, name))
            .collect();
        // A tool is blocked before it is unregistered, so that its name is never unknown.
        self.offered.blocked.write().extend(now_blocked.clone());
        let registered = offer.register(tools, blocked, &state.tools);
        self.offered.blocked.write().retain(|name, other| {
            !Arc::ptr_eq(&other.server, server) || now_blocked.contains_key(name)
        });
        let names = registered.iter().map(|(name, _)| name.clone()).collect();
        self.publish_tool_changes(server, &registered);
        {
            let mut known = self.offered.tools.write();
            known.retain(|_, tool| !Arc::ptr_eq(tool.server(), server));
            known.extend(registered);
        }
        drop(registration);
        // The first request includes connecting, and does not count as slow.
        let is_slow = took > SLOW_LIST_THRESHOLD && state.next.is_some();
        let paused_until = is_slow.then(|| Instant::now() + took * BACKOFF_FACTOR);
        server.notification_pause.set(paused_until);
        *state = DiscoveryState {
            tools: names,
            next: Some(Instant::now() + time_until_stale(&self.times)),
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

    /// Records a failure. If the request was only for a call, the backoff of lists is not extended.
    fn record_failure(
        &self,
        server: &Server,
        state: &mut DiscoveryState,
        error: String,
        was_due: bool,
    ) {
        // Logged once for each reason, not for each attempt.
        if server.report.get().error.as_ref() != Some(&error) {
            self.publish_status(server, ConnectionStatus::Error, Some(&error));
            tracing::warn!(server.label = server.label, %error, "Failed to list MCP tools");
        }
        server.report.record_failure(error);
        if !was_due {
            return;
        }
        state.is_stale = false;
        state.next = Some(Instant::now() + backoff(&self.times, state.failures));
        state.failures += 1;
    }
}
