//! One MCP server: its connections, and what the rest of the sidecar may know of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::RwLock;
use pillion_core::registry::ToolRegistry;
use pillion_core::store::{PinOwner, Timestamp};
use pillion_core::tool::{ToolOrigin, TraceContext};
use pillion_deadline::timeout;
use pillion_mcp_client::{Feature, McpClient};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Listeners;
use super::connection::UpstreamConnection;
use super::discovery::{Asks, State};
use super::entries::ReportedProblems;
use super::listed_names::ListedNames;
use super::notification_pause::NotificationPause;
use super::offer::RawTool;
use super::users::Users;
use crate::connections::{ConnectionStatus, ServerReport};
use crate::credentials::{UserCredentials, file_id};
use crate::pins::PinRules;
use crate::telemetry::{Span, Telemetry};
use pillion_config::{McpSection, McpServerSection};

/// Pause before the first immediate retry of a tool list; doubled for each further retry.
const MIN_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Timeout of a request for resources whose result is not used.
const RESOURCES_TIMEOUT: Duration = Duration::from_secs(2);

/// An MCP server that the sidecar is a client of.
#[derive(Debug)]
pub struct Server {
    /// The server's label.
    pub label: String,
    /// The server's id in the store, or an id derived from the label for a server of the
    /// configuration file.
    pub(super) id: String,
    /// The prefix of the server's tool names in the registry.
    pub(super) tool_prefix: String,
    /// The prefix that the configuration sets explicitly.
    pub configured_prefix: Option<String>,
    /// The connection under the server's own credential.
    pub shared: Arc<UpstreamConnection>,
    pub(super) users: Users,
    /// Whether the next discovery must request the list, even if the list is fresh.
    is_stale: AtomicBool,
    /// Whether the server has notified that its list has changed.
    has_changed: AtomicBool,
    /// Limits how often notifications of the server are applied.
    pub notification_pause: NotificationPause,
    /// The problems with entries of the server's lists that were already logged.
    pub(super) reported: ReportedProblems,
    /// The server's names for the tools that it lists for all users.
    pub(super) listed_names: ListedNames,
    /// Whether a tool of the latest list has a name that belongs to another tool or server.
    has_name_conflict: AtomicBool,
    /// Whether the server was disconnected manually and must not be used.
    is_closed: AtomicBool,
    /// The state of discovery. Locked during a `tools/list` request.
    pub(super) state: tokio::sync::Mutex<State>,
    pub(super) asks: Asks,
    /// Number of calls of [`expire`](Self::expire), to detect stale lists of users.
    pub(super) epoch: AtomicU64,
    pub(super) section: McpServerSection,
    telemetry: Option<Arc<Telemetry>>,
    /// The public state of the server, readable while discovery holds `state`.
    report: RwLock<ServerReport>,
}

impl Server {
    pub(super) fn new(
        section: &McpServerSection,
        listeners: &Listeners,
        credentials: &UserCredentials,
    ) -> Self {
        let id = section.id.clone();
        Self {
            label: section.label().to_owned(),
            id: id.unwrap_or_else(|| file_id(section.label())),
            tool_prefix: section.tool_prefix(),
            configured_prefix: section.settings.tool_prefix.clone(),
            shared: Arc::new(UpstreamConnection::to(section.server.clone())),
            users: Users::new(credentials),
            is_stale: AtomicBool::new(false),
            has_changed: AtomicBool::new(false),
            notification_pause: NotificationPause::default(),
            reported: ReportedProblems::default(),
            listed_names: ListedNames::default(),
            has_name_conflict: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            state: tokio::sync::Mutex::default(),
            asks: Asks::default(),
            epoch: AtomicU64::new(0),
            report: RwLock::new(ServerReport {
                label: section.label().to_owned(),
                ..ServerReport::default()
            }),
            section: section.clone(),
            telemetry: listeners.telemetry.clone(),
        }
    }

    /// Returns the owner of the pins of tools that the server lists for everyone or for this user.
    pub(super) fn pinned<'a>(&'a self, user: Option<&'a str>) -> PinOwner<'a> {
        PinOwner {
            server: &self.label,
            user,
        }
    }

    /// Returns what happens to tools that changed or were added.
    pub(super) fn pin_rules(&self, defaults: &McpSection) -> PinRules {
        PinRules {
            changed: self.section.settings.pin.unwrap_or(defaults.pin),
            new: self
                .section
                .settings
                .new_tools
                .unwrap_or(defaults.new_tools),
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
    pub fn span(
        &self,
        method: &str,
        tool: Option<&str>,
        parent: Option<&TraceContext>,
    ) -> (Option<Span>, Option<TraceContext>) {
        let telemetry = self.telemetry.as_ref();
        let span = telemetry
            .map(|telemetry| telemetry.upstream(&self.section.server, method, tool, parent));
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
        // Ordered with the request numbers in `asks`.
        self.is_stale.store(true, Ordering::SeqCst);
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that the server has notified of a changed list.
    pub fn list_has_changed(&self) {
        self.has_changed.store(true, Ordering::SeqCst);
    }

    /// Takes the stale flag: returns `true` once after [`expire`](Self::expire).
    pub(super) fn take_stale_flag(&self) -> bool {
        self.is_stale.swap(false, Ordering::SeqCst)
    }

    /// Takes the change flag: returns `true` once after
    /// [`list_has_changed`](Self::list_has_changed).
    pub(super) fn take_change_flag(&self) -> bool {
        self.has_changed.swap(false, Ordering::SeqCst)
    }

    /// Records that a tool is not offered because its name belongs to another tool or server.
    pub(super) fn record_name_conflict(&self) {
        self.has_name_conflict.store(true, Ordering::SeqCst);
    }

    /// Returns `true` once after [`record_name_conflict`](Self::record_name_conflict).
    pub(super) fn take_name_conflict(&self) -> bool {
        self.has_name_conflict.swap(false, Ordering::SeqCst)
    }

    /// Unregisters those of the names that are registered for this server.
    pub(super) fn unregister<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        registry: &ToolRegistry,
    ) {
        let is_own = |name: &&str| {
            let holder = registry.get(name);
            holder.is_some_and(|holder| self.is_origin(holder.origin()))
        };
        // Collected first, because the registry is locked while it reads the names.
        let names: Vec<_> = names.into_iter().filter(is_own).collect();
        registry.unregister_all(names);
    }

    /// Returns whether this server is the origin of a tool.
    pub(super) fn is_origin(&self, origin: &ToolOrigin) -> bool {
        matches!(origin, ToolOrigin::Mcp { server_label, .. } if *server_label == self.label)
    }

    pub(super) fn report(&self) -> ServerReport {
        self.report.read().clone()
    }

    pub(super) fn status(&self) -> ConnectionStatus {
        self.report.read().status()
    }

    /// Records a successful `tools/list` with `tools` entries.
    pub(super) fn record_listing(&self, tools: usize) {
        let mut report = self.report.write();
        report.was_asked = true;
        report.tools = tools;
        report.error = None;
        report.connected_at = Some(Timestamp::now());
    }

    /// Records a failed `tools/list`.
    pub(super) fn has_failed(&self, error: String) {
        let mut report = self.report.write();
        report.was_asked = true;
        report.error = Some(error);
    }

    /// Returns whether the server was disconnected manually and not connected since.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Marks the server as disconnected manually, and resets its report. Returns `true` if the
    /// server was open.
    pub(super) fn close(&self) -> bool {
        let was_closed = self.is_closed.swap(true, Ordering::AcqRel);
        let mut report = self.report.write();
        report.was_asked = false;
        report.error = None;
        !was_closed
    }

    /// Marks the server as usable again.
    pub(super) fn open(&self) {
        self.shared.client.reopen();
        self.is_closed.store(false, Ordering::Release);
    }

    /// Ends all sessions with the server.
    pub(super) async fn disconnect(&self) {
        let mut lines = self.users.take_all();
        lines.push(Arc::clone(&self.shared));
        join_all(lines.iter().map(|line| line.client.disconnect())).await;
    }

    /// Requests the tools within `limit`, with the configured number of immediate retries.
    pub(super) async fn list(
        &self,
        client: &McpClient,
        limit: Duration,
    ) -> Result<Vec<RawTool>, String> {
        let _asking = ListRequestGuard::begin(self);
        let mut wait = MIN_RETRY_INTERVAL;
        let mut error = None;
        let tried = timeout(limit, async {
            for attempt in 0..=self.section.settings.retry_attempts {
                if attempt > 0 {
                    tokio::time::sleep(wait).await;
                    wait *= 2;
                }
                match client.list_tools().await {
                    Ok(tools) => return Some(tools),
                    Err(failure) => error = Some(failure.to_string()),
                }
            }
            None
        })
        .await;
        match (tried, error) {
            (Ok(Some(tools)), _) => {
                self.ask_for_resources(client).await;
                Ok(tools)
            }
            (_, Some(error)) => Err(error),
            (_, None) => Err(not_listed_within(limit)),
        }
    }

    /// Lists the resources of a server that has resources, if the configuration pins a revision
    /// whose clients did so after connecting. The result is ignored.
    async fn ask_for_resources(&self, client: &McpClient) {
        let pinned = self.section.server.protocol_version;
        if !pinned.is_some_and(|version| version.supports(Feature::ResourcesAfterTools)) {
            return;
        }
        let Ok(connection) = client.connection().await else {
            return;
        };
        let hello = connection.server.as_ref();
        let hello = hello.and_then(|hello| serde_json::from_str::<Hello>(hello.get()).ok());
        if hello.is_none_or(|hello| hello.capabilities.resources.is_none()) {
            return;
        }
        match timeout(RESOURCES_TIMEOUT, client.list_resources()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::debug!(
                    server.label = self.label, %error,
                    "Cannot list the resources of an MCP server"
                );
            }
            Err(_) => tracing::debug!(
                server.label = self.label,
                "An MCP server did not list its resources in time"
            ),
        }
    }
}

#[derive(Deserialize)]
struct Hello {
    capabilities: HasResources,
}

#[derive(Deserialize)]
struct HasResources {
    #[serde(default)]
    resources: Option<IgnoredAny>,
}

/// Marks a `tools/list` request as in progress until dropped.
struct ListRequestGuard<'a>(&'a Server);

impl<'a> ListRequestGuard<'a> {
    fn begin(server: &'a Server) -> Self {
        server.report.write().is_asked = true;
        Self(server)
    }
}

impl Drop for ListRequestGuard<'_> {
    fn drop(&mut self) {
        self.0.report.write().is_asked = false;
    }
}

/// Returns the error of a server that did not list its tools in time.
pub(super) fn not_listed_within(limit: Duration) -> String {
    let seconds = limit.as_secs_f64();
    format!("the server did not list its tools within {seconds:.1}s")
}
