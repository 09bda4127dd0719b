//! The state of a running sidecar, apart from its sockets.

mod assembly;
mod reload;
mod resolution;
mod unknown_tools;

use std::sync::Arc;
use std::time::Duration;

use pillion_core::compose::CheckpointStore;
use pillion_core::executor::Executor;
use pillion_core::pack::Packs;
use pillion_core::registry::{RegisteredTool, ToolRegistry};
use pillion_core::store::Store;
use pillion_core::tool::CallContext;
use pillion_wire::UnavailableServer;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::mcp_server::McpServerState;
use crate::servers::Servers;
use pillion_config::HttpSection;
use pillion_gateway::access::Access;
use pillion_gateway::approvals::Approvals;
use pillion_gateway::connections::ServerReport;
use pillion_gateway::declared_tools::Registered;
use pillion_gateway::metrics::{Metrics, Scrape, System};
use pillion_gateway::models::Models;
use pillion_gateway::packs::LoadedPacks;
use pillion_gateway::process::Process;
use pillion_gateway::results::Results;
use pillion_gateway::state::State;
use pillion_gateway::tool_keys::ToolKeys;
use pillion_gateway::upstream::{Own, Upstreams};
use pillion_gateway::visibility::Visibility;
use pillion_gateway::wasm_tools::WasmTools;
use pillion_gateway::workers::Workers;
pub(crate) use resolution::{MissingTool, NameScope, Resolution};
use unknown_tools::UnknownTools;

/// Maximum time for ending the sessions with MCP servers.
const SESSION_CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The state that all request handlers share. Cheap to clone.
///
/// An `App` never changes: a reload of the configuration builds a new `App`, and each request keeps
/// the `App` with which the request began ([`CurrentApp`](crate::current_app::CurrentApp)).
#[derive(Debug, Clone)]
pub struct App {
    shared: Arc<Shared>,
}

struct Shared {
    executor: Executor,
    upstreams: Arc<Upstreams>,
    http: HttpSection,
    access: Access,
    approvals: Approvals,
    state: Option<State>,
    servers: Option<Arc<Servers>>,
    results: Option<Arc<Results>>,
    mcp: Arc<McpServerState>,
    models: Arc<Models>,
    tool_keys: ToolKeys,
    unknown_tools: UnknownTools,
    workers: Arc<Workers>,
    wasm_tools: Arc<WasmTools>,
    /// The tools that the configuration registered.
    registered: Registered,
    /// Whether `registered` includes built-in tools and packs; otherwise only declared tools.
    has_all_tools: bool,
    /// Stores the steps of composed tools; in memory if there is no store.
    checkpoints: Arc<dyn CheckpointStore>,
    loaded_packs: LoadedPacks,
    process: Arc<Process>,
    /// Closes when the last clone of this `App` is dropped.
    used: watch::Sender<()>,
}

/// The tools that are offered to one caller.
pub(crate) struct Offered {
    pub(crate) tools: Vec<Arc<RegisteredTool>>,
    /// The tools that only this caller has.
    pub(crate) own: Own,
    /// The shared MCP servers whose tools could not be listed. Servers whose list was requested for
    /// this caller alone are in `own`.
    pub(crate) unavailable_servers: Vec<UnavailableServer>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("executor", &self.executor)
            .field("registered", &self.registered)
            .finish_non_exhaustive()
    }
}

impl App {
    fn of(shared: Shared) -> Self {
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Returns the executor that runs the calls.
    #[must_use]
    pub fn executor(&self) -> &Executor {
        &self.shared.executor
    }

    /// Returns the maximum time of one chat request: the chat timeout plus the maximum wait for
    /// approvals.
    pub(crate) fn max_chat_duration(&self) -> Duration {
        let chat = self.models().chat().timeout;
        chat.saturating_add(self.approvals().section().max_wait)
    }

    /// Returns the tool registry.
    #[must_use]
    pub fn registry(&self) -> &Arc<ToolRegistry> {
        self.shared.executor.registry()
    }

    /// Returns the limits of the HTTP server.
    #[must_use]
    pub fn http(&self) -> &HttpSection {
        &self.shared.http
    }

    /// Returns the data that outlives the process, if there is a store.
    pub(crate) fn state(&self) -> Option<&State> {
        self.shared.state.as_ref()
    }

    /// Returns the store of offloaded tool results, if configured.
    pub(crate) fn results(&self) -> Option<&Arc<Results>> {
        self.shared.results.as_ref()
    }

    pub(crate) fn store(&self) -> Option<Arc<dyn Store>> {
        self.shared.state.as_ref().map(State::store)
    }

    /// Returns the MCP servers that can be added and changed at run time, if there is a store.
    pub(crate) fn servers(&self) -> Option<&Arc<Servers>> {
        self.shared.servers.as_ref()
    }

    /// Returns the MCP servers whose tools are offered.
    pub(crate) fn upstreams(&self) -> &Upstreams {
        &self.shared.upstreams
    }

    /// Returns Pillion's own MCP server, which keeps its state across reloads.
    pub(crate) fn mcp(&self) -> &McpServerState {
        &self.shared.mcp
    }

    pub(crate) fn models(&self) -> &Arc<Models> {
        &self.shared.models
    }

    /// Returns the API keys that the built-in tools need.
    pub(crate) fn tool_keys(&self) -> &ToolKeys {
        &self.shared.tool_keys
    }

    /// Returns the worker processes, which offer tools of their own.
    pub(crate) fn workers(&self) -> &Arc<Workers> {
        &self.shared.workers
    }

    /// Returns the tools that are WebAssembly components.
    pub(crate) fn wasm_tools(&self) -> &Arc<WasmTools> {
        &self.shared.wasm_tools
    }

    /// Returns the offered packs, with their resources and counters.
    pub(crate) fn packs(&self) -> &Packs {
        &self.shared.loaded_packs.offered
    }

    /// Returns the offered packs of which a caller with this visibility may see at least one tool.
    pub(crate) fn packs_for(&self, visibility: &Visibility) -> Packs {
        visibility.packs(self.packs())
    }

    /// Returns the access rules.
    #[must_use]
    pub fn access(&self) -> &Access {
        &self.shared.access
    }

    /// Returns the calls that wait for approval.
    pub(crate) fn approvals(&self) -> &Approvals {
        &self.shared.approvals
    }

    /// Returns the state that outlives reloads.
    pub(crate) fn process(&self) -> &Arc<Process> {
        &self.shared.process
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.shared.process.metrics
    }

    /// Collects all values for the metrics endpoint.
    pub(crate) fn scrape(&self) -> Scrape {
        Scrape {
            metrics: Arc::clone(self.metrics()),
            servers: self.server_reports(),
            system: System::look(),
            tools: self.registry().len(),
            load: self.executor().load(),
            cache: self.executor().cache_counts(),
            packs: self.packs().counters(),
        }
    }

    /// Returns the known state of each MCP server, without sending requests.
    pub(crate) fn server_reports(&self) -> Vec<ServerReport> {
        self.shared.upstreams.reports()
    }

    /// Returns why the latest attempt to write call records failed, if it failed.
    pub(crate) fn store_failure(&self) -> Option<String> {
        self.shared.state.as_ref()?.store_failure()
    }

    /// Returns whether the store's file was deleted or replaced. If so, every call fails.
    pub(crate) fn is_store_missing(&self) -> bool {
        let state = self.shared.state.as_ref();
        state.is_some_and(|state| state.store_file_failure().is_some())
    }

    /// Returns whether `tools/list` was sent to every MCP server at least once.
    pub(crate) fn has_tried_discovery(&self) -> bool {
        self.shared.upstreams.was_tried()
    }

    /// Lists the tools of the MCP servers whose lists are due. Returns the servers that failed.
    pub(crate) async fn discover(&self) -> Vec<UnavailableServer> {
        let unavailable = self.shared.upstreams.discover().await;
        if unavailable.is_empty() {
            self.shared.unknown_tools.log_missing(self.registry());
        }
        unavailable
    }

    /// Returns the tools that a caller with this visibility is offered, including the caller's own
    /// tools. Lists the tools of MCP servers first where that is due.
    pub(crate) async fn tools_for(
        &self,
        context: &CallContext,
        visibility: &Visibility,
    ) -> Offered {
        let unavailable_servers = self.discover().await;
        let own = self.shared.upstreams.own(context).await;
        let mut tools = self.registry().tools(None);
        self.shared.upstreams.sort_by_config(&mut tools);
        tools.extend(own.tools.values().cloned());
        tools.retain(|tool| visibility.admits(tool, tool.name().as_str()));
        Offered {
            tools,
            own,
            unavailable_servers,
        }
    }

    /// Returns the prefix of the tool names of the MCP server with this label.
    pub(crate) fn tool_prefix(&self, label: &str) -> &str {
        self.shared.upstreams.tool_prefix(label)
    }

    /// Exports the remaining spans, and stops the export.
    pub async fn stop_telemetry(&self) {
        if let Some(telemetry) = self.process().telemetry.clone() {
            telemetry.stop().await;
        }
    }

    /// Ends the sessions with the MCP servers, and stops waiting after 2 seconds.
    pub async fn disconnect(&self) {
        drop(timeout(SESSION_CLOSE_TIMEOUT, self.shared.upstreams.disconnect()).await);
    }
}
