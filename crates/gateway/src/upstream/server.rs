//! An MCP server with its connections, the names of its tools and its public state.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::future::join_all;
use parking_lot::RwLock;
use pillion_core::registry::ToolRegistry;
use pillion_core::store::PinOwner;
use pillion_core::tool::{ToolOrigin, TraceContext};
use pillion_mcp_client::{Authentication, EntryKind};
use serde_json::value::RawValue;

use super::Listeners;
use super::caller_connections::{CallerConnections, UpstreamConnection};
use super::discovery_state::{DiscoveryState, ListRequestCounts, NotificationPause};
use super::entries::EntryChecker;
use crate::connections::CurrentReport;
use crate::credentials::UserCredentials;
use crate::pins::PinRules;
use crate::telemetry::{Span, Telemetry};
use pillion_config::{CredentialPolicy, McpSection, McpServerSection};

/// An MCP server that the sidecar is a client of.
#[derive(Debug)]
pub struct Server {
    /// The server's label.
    pub label: String,
    /// The prefix of the server's tool names in the registry.
    pub(super) tool_prefix: String,
    /// The prefix that the configuration sets explicitly.
    pub configured_prefix: Option<String>,
    /// The connection under the server's shared credential.
    pub shared_connection: Arc<UpstreamConnection>,
    /// Chooses the connection of a call.
    pub connections: CallerConnections,
    /// Whether the next discovery must request the list, even if the list is fresh.
    is_stale: AtomicBool,
    /// Whether the server has notified that its list has changed.
    has_changed: AtomicBool,
    /// Limits how often notifications of the server are applied.
    pub notification_pause: NotificationPause,
    /// Checks the entries of the server's lists.
    pub entries: Arc<EntryChecker>,
    /// The server's names for the tools that it lists for all users.
    pub(super) listed_names: ListedNames,
    /// Whether a tool of the latest list has a name that belongs to another tool or server.
    has_name_conflict: AtomicBool,
    /// The state of tool discovery. Locked during a `tools/list` request.
    pub(super) state: tokio::sync::Mutex<DiscoveryState>,
    pub(super) list_requests: ListRequestCounts,
    /// Number of calls of [`expire`](Self::expire), to detect stale lists of users.
    pub(super) epoch: AtomicU64,
    pub(super) section: Arc<McpServerSection>,
    telemetry: Option<Arc<Telemetry>>,
    /// The server's public status, which can be read while discovery holds `state`.
    pub(super) report: CurrentReport,
}

impl Server {
    pub(super) fn new(
        section: &McpServerSection,
        listeners: &Listeners,
        credentials: &UserCredentials,
    ) -> Self {
        let section = Arc::new(section.clone());
        let label = section.label().to_owned();
        let shared_connection = Arc::new(UpstreamConnection::new(section.server.clone()));
        Self {
            tool_prefix: section.tool_prefix(),
            configured_prefix: section.settings.tool_prefix.clone(),
            connections: CallerConnections::new(&section, &shared_connection, credentials),
            shared_connection,
            is_stale: AtomicBool::new(false),
            has_changed: AtomicBool::new(false),
            notification_pause: NotificationPause::default(),
            entries: Arc::new(EntryChecker::new(label.clone())),
            listed_names: ListedNames::default(),
            has_name_conflict: AtomicBool::new(false),
            state: tokio::sync::Mutex::default(),
            list_requests: ListRequestCounts::default(),
            epoch: AtomicU64::new(0),
            report: CurrentReport::new(label.clone()),
            label,
            section,
            telemetry: listeners.telemetry.clone(),
        }
    }

    /// Returns the owner of pins: the server and, for tools that the server lists for a single
    /// user, that user.
    pub(super) fn pin_owner<'a>(&'a self, user: Option<&'a str>) -> PinOwner<'a> {
        let server = &self.label;
        PinOwner { server, user }
    }

    /// Logs that a tool of the server was dropped because its entry is invalid.
    pub(super) fn report_dropped_tool(&self, raw_tool: &RawValue, reason: &dyn std::fmt::Display) {
        self.entries
            .report_dropped(EntryKind::Tool, raw_tool, reason);
    }

    /// Returns the policies for the server's tools that have changed or were added.
    pub(super) fn pin_rules(&self, defaults: &McpSection) -> PinRules {
        let settings = &self.section.settings;
        PinRules {
            on_change: settings.pin.unwrap_or(defaults.pin),
            on_new_tool: settings.new_tools.unwrap_or(defaults.new_tools),
        }
    }

    /// Returns the origin of the server's tools.
    pub(super) fn origin(&self) -> ToolOrigin {
        ToolOrigin::Mcp {
            server_label: self.label.clone(),
            server_url: self.section.server.display_url(),
        }
    }

    /// Starts the span of a request to the server, if telemetry is enabled. Also returns the trace
    /// context to send with the request: the span's, or else `parent`.
    pub fn start_span(
        &self,
        method: &str,
        tool: Option<&str>,
        parent: Option<&TraceContext>,
    ) -> (Option<Span>, Option<TraceContext>) {
        let telemetry = self.telemetry.as_ref();
        let span = telemetry.map(|telemetry| {
            telemetry.start_upstream_span(&self.section.server, method, tool, parent)
        });
        let trace = span.as_ref().and_then(Span::context);
        (span, trace.or_else(|| parent.cloned()))
    }

    /// Returns the prefix of the server's tool names in the registry.
    pub fn tool_prefix(&self) -> &str {
        &self.tool_prefix
    }

    /// Marks the tool list as stale: the next discovery requests the list even if it is fresh or
    /// the server has recently failed.
    pub(crate) fn expire(&self) {
        // The ordering is `SeqCst`, so that this write is ordered with the counters in
        // `list_requests`.
        self.is_stale.store(true, Ordering::SeqCst);
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that the server has notified of a changed list.
    pub fn record_list_change(&self) {
        self.has_changed.store(true, Ordering::SeqCst);
    }

    /// Takes the stale flag: returns `true` once after [`expire`](Self::expire).
    pub(super) fn take_stale_flag(&self) -> bool {
        self.is_stale.swap(false, Ordering::SeqCst)
    }

    /// Takes the change flag: returns `true` once after
    /// [`record_list_change`](Self::record_list_change).
    pub(super) fn take_change_flag(&self) -> bool {
        self.has_changed.swap(false, Ordering::SeqCst)
    }

    /// Records that a tool is not offered because its name belongs to another tool or server.
    pub(super) fn record_name_conflict(&self) {
        self.has_name_conflict.store(true, Ordering::SeqCst);
    }

    /// Takes the conflict flag: returns `true` once after
    /// [`record_name_conflict`](Self::record_name_conflict).
    pub(super) fn take_name_conflict(&self) -> bool {
        self.has_name_conflict.swap(false, Ordering::SeqCst)
    }

    /// Unregisters those of `names` that are registered for a tool of this server.
    pub(super) fn unregister<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        registry: &ToolRegistry,
    ) {
        let is_from_server = |name: &&str| {
            let holder = registry.get(name);
            holder.is_some_and(|holder| self.is_origin(holder.origin()))
        };
        // The names are collected first, because the registry is locked while it iterates over
        // them.
        let names: Vec<_> = names.into_iter().filter(is_from_server).collect();
        registry.unregister_all(names);
    }

    /// Returns whether this server is the origin of a tool.
    pub(super) fn is_origin(&self, origin: &ToolOrigin) -> bool {
        matches!(origin, ToolOrigin::Mcp { server_label, .. } if *server_label == self.label)
    }

    /// Returns whether the server was disconnected manually and not connected since.
    pub(super) fn is_closed(&self) -> bool {
        self.connections.is_closed()
    }

    /// Marks the server as disconnected manually, and resets its public status. Returns `false` if
    /// the server was already disconnected.
    pub(super) fn close(&self) -> bool {
        let was_open = self.connections.close();
        self.report.reset();
        was_open
    }

    /// Marks the server as usable again.
    pub(super) fn open(&self) {
        self.shared_connection.client.reopen();
        self.connections.open();
    }

    /// Ends all sessions with the server.
    pub(super) async fn disconnect(&self) {
        let connections = self.connections.take_all();
        let clients = connections.iter().map(|connection| &connection.client);
        join_all(clients.map(|client| client.disconnect())).await;
    }

    /// Returns whether the server lists its tools once for all users, which is the case if calls
    /// may use the server's shared credential, or if there is a credential for listing tools.
    pub fn lists_for_all_users(&self) -> bool {
        let has_credential = !matches!(
            self.section.server.authentication,
            Authentication::None | Authentication::OAuth(_)
        );
        self.section.settings.credential != CredentialPolicy::PerUser || has_credential
    }

    /// Returns whether discovery requests the shared list of this server.
    pub(super) fn has_shared_list(&self) -> bool {
        self.lists_for_all_users() && !self.is_closed()
    }

    /// Returns whether calls may use the credentials of users.
    pub fn uses_user_credentials(&self) -> bool {
        self.section.settings.credential.uses_user_credentials()
    }

    /// Returns whether the tools of this server have no prefix for MCP clients.
    pub(super) fn uses_unprefixed_names(&self) -> bool {
        self.configured_prefix.as_ref().is_none_or(String::is_empty)
    }

    /// Returns whether the tools that the server lists for all users are unknown.
    pub(super) fn is_unlisted(&self) -> bool {
        self.lists_for_all_users() && self.listed_names.is_unknown()
    }

    /// Returns whether the server has, or could have, a tool that clients know by this name.
    pub(super) fn may_have_unprefixed_name(&self, name: &str) -> bool {
        self.uses_unprefixed_names() && (self.is_unlisted() || self.listed_names.contains(name))
    }

    /// Returns whether `name` is the server's prefix followed by the name of a tool that the server
    /// is known to have listed.
    pub(super) fn has_listed_without_prefix(&self, name: &str) -> bool {
        let remote_name = name.strip_prefix(&self.tool_prefix);
        remote_name.is_some_and(|remote_name| self.listed_names.contains(remote_name))
    }
}

/// Maximum number of names that are remembered in addition to those of the latest list.
const MAX_REMEMBERED_NAMES: usize = 10_000;

/// The names that a server has given its tools. A name stays known while the server is unreachable,
/// and after the server no longer lists the tool, so that no other server takes the name in the
/// meantime.
#[derive(Debug, Default)]
pub(super) struct ListedNames(RwLock<KnownNames>);

#[derive(Debug, Default)]
enum KnownNames {
    #[default]
    Unknown,
    /// The names of the server's pins, before the first list of this process.
    Pinned(HashSet<String>),
    Listed(HashSet<String>),
}

impl ListedNames {
    /// Adds the names of a list.
    pub(super) fn add(&self, names: impl IntoIterator<Item = String>) {
        let mut known_names = self.0.write();
        let mut names: HashSet<_> = names.into_iter().collect();
        if let KnownNames::Pinned(earlier_names) | KnownNames::Listed(earlier_names) =
            &mut *known_names
            && earlier_names.len().saturating_add(names.len()) <= MAX_REMEMBERED_NAMES
        {
            names.extend(earlier_names.drain());
        }
        *known_names = KnownNames::Listed(names);
    }

    /// Sets the server's known tool names to `names`, the names of the server's pins, unless the
    /// server has already listed its tools. With `None`, the known names stay unchanged. A server
    /// without pins has never listed its tools, so no client knows any of its tool names.
    pub(super) fn set_pinned(&self, names: Option<HashSet<String>>) {
        let mut known_names = self.0.write();
        if let Some(names) = names
            && !matches!(*known_names, KnownNames::Listed(_))
        {
            *known_names = KnownNames::Pinned(names);
        }
    }

    /// Returns whether the server's names are unknown, which is the case if the server has not
    /// listed its tools yet and no pins are known.
    pub(super) fn is_unknown(&self) -> bool {
        matches!(*self.0.read(), KnownNames::Unknown)
    }

    /// Returns whether the server is known to have given a tool this name.
    pub(super) fn contains(&self, name: &str) -> bool {
        match &*self.0.read() {
            KnownNames::Unknown => false,
            KnownNames::Pinned(names) | KnownNames::Listed(names) => names.contains(name),
        }
    }
}
