//! Runs the calls of all interfaces with the tools, upstream servers, models and limits of the
//! configuration.

mod builder;
mod resolution;
mod unknown_tools;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use indexmap::IndexMap;
use pillion_config::Config;
use pillion_core::compose::CheckpointStore;
use pillion_core::executor::Executor;
use pillion_core::pack::Packs;
use pillion_core::registry::{RegisteredTool, ToolRegistry};
use pillion_core::store::Store;
use pillion_core::tool::{CallContext, ToolName};
use pillion_wire::UnavailableServer;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::approvals::Approvals;
use crate::connections::ServerReport;
use crate::credentials::UserCredentials;
use crate::declared_tools::Registered;
use crate::metrics::{Metrics, Scrape, System};
use crate::models::Models;
use crate::packs::LoadedPacks;
use crate::process::Process;
use crate::results::Results;
use crate::state::State;
use crate::tool_keys::ToolKeys;
use crate::upstream::{Own, UpstreamTool, Upstreams};
use crate::visibility::Visibility;
use crate::wasm_tools::WasmTools;
use crate::workers::Workers;
use builder::Builder;
pub use builder::{GatewayParts, ReloadScope};
use resolution::ToolLookup;
pub use resolution::{MissingTool, NameScope, Resolution};
use unknown_tools::UnknownTools;

/// Maximum time for ending the sessions with MCP servers.
const SESSION_CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The tools, upstream servers, models and limits of one configuration. Cheap to clone.
///
/// A `Gateway` never changes: a reload of the configuration builds a new `Gateway`, which takes over
/// the registry, the counters and the workers.
#[derive(Debug, Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

struct Shared {
    executor: Executor,
    upstreams: Arc<Upstreams>,
    approvals: Approvals,
    state: Option<State>,
    credentials: UserCredentials,
    results: Option<Arc<Results>>,
    models: Arc<Models>,
    tool_keys: ToolKeys,
    unknown_tools: Arc<UnknownTools>,
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
    /// Closes when the last clone of this `Gateway` is dropped.
    used: watch::Sender<()>,
}

/// The tools that are offered to one caller.
pub struct Offered {
    /// The tools, including those in `own`.
    pub tools: Vec<Arc<RegisteredTool>>,
    /// The tools that only the caller has.
    pub own: Own,
    /// The shared MCP servers whose tools could not be listed. Servers that list tools for the
    /// caller alone are in `own`.
    pub unavailable_servers: Vec<UnavailableServer>,
}

impl Offered {
    /// Returns every server that could not be queried.
    #[must_use]
    pub fn unavailable(self) -> Vec<UnavailableServer> {
        let mut unavailable = self.unavailable_servers;
        unavailable.extend(self.own.unavailable);
        unavailable
    }

    /// Returns the tools of MCP servers, as the servers listed them.
    #[must_use]
    pub fn server_tools(&self, gateway: &Gateway) -> IndexMap<ToolName, Arc<UpstreamTool>> {
        let mut tools = gateway.upstreams().tools();
        let own_tools = self.own.listed.iter();
        tools.extend(own_tools.map(|(name, tool)| (name.clone(), Arc::clone(tool))));
        tools
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("executor", &self.executor)
            .field("registered", &self.registered)
            .finish_non_exhaustive()
    }
}

impl Gateway {
    fn new(shared: Shared) -> Self {
        let unknown_tools = Arc::clone(&shared.unknown_tools);
        unknown_tools.check_servers(shared.executor.registry());
        shared.process.events.set_new_tool_observer(unknown_tools);
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Builds a gateway from a configuration. Performs no I/O: the tools of MCP servers are listed
    /// on first use.
    #[must_use]
    pub fn build(config: &Config, parts: GatewayParts) -> Self {
        Builder(config).build(parts)
    }

    /// Returns the [`Gateway`] of a new configuration. The registry stays the same, except for
    /// tools of MCP servers and of the configuration that were removed or changed; the counters of
    /// limits and metrics continue. Running calls finish with the `Gateway` with which they began.
    pub async fn reload(&self, config: &Config, scope: ReloadScope) -> Self {
        Builder(config).reload(&self.shared, scope).await
    }

    /// Releases this [`Gateway`] after `successor` has replaced it. When the last request has finished
    /// with this `Gateway`, ends the sessions with those MCP servers that `successor` does not have.
    pub fn retire(self, successor: &Self) -> impl Future<Output = ()> + Send + use<> {
        let Self { shared } = self;
        let mut used = shared.used.subscribe();
        let upstreams = Arc::clone(&shared.upstreams);
        let gone = upstreams.without(&successor.shared.upstreams);
        async move {
            drop((shared, upstreams));
            // No value is ever sent: `changed` fails when the last sender is dropped.
            while used.changed().await.is_ok() {}
            gone.disconnect().await;
        }
    }

    /// Returns the executor that runs the calls.
    #[must_use]
    pub fn executor(&self) -> &Executor {
        &self.shared.executor
    }

    /// Returns the maximum time of one chat request: the chat timeout plus the maximum wait for
    /// approvals.
    pub fn max_chat_duration(&self) -> Duration {
        let chat = self.models().chat().timeout;
        chat.saturating_add(self.approvals().section().max_wait)
    }

    /// Returns the tool registry.
    #[must_use]
    pub fn registry(&self) -> &Arc<ToolRegistry> {
        self.shared.executor.registry()
    }

    /// Returns the data that outlives the process, if there is a store.
    pub fn state(&self) -> Option<&State> {
        self.shared.state.as_ref()
    }

    /// Returns the store of offloaded tool results, if configured.
    pub fn results(&self) -> Option<&Arc<Results>> {
        self.shared.results.as_ref()
    }

    /// Returns the store, if there is one.
    pub fn store(&self) -> Option<Arc<dyn Store>> {
        self.shared.state.as_ref().map(State::store)
    }

    /// Returns the MCP servers whose tools are offered.
    pub fn upstreams(&self) -> &Arc<Upstreams> {
        &self.shared.upstreams
    }

    /// Returns the configured models.
    pub fn models(&self) -> &Arc<Models> {
        &self.shared.models
    }

    /// Returns the API keys that the built-in tools need.
    pub fn tool_keys(&self) -> &ToolKeys {
        &self.shared.tool_keys
    }

    /// Returns the worker processes, which offer tools of their own.
    pub fn workers(&self) -> &Arc<Workers> {
        &self.shared.workers
    }

    /// Returns the tools that are WebAssembly components.
    pub fn wasm_tools(&self) -> &Arc<WasmTools> {
        &self.shared.wasm_tools
    }

    /// Returns the offered packs, with their resources and counters.
    pub fn packs(&self) -> &Packs {
        &self.shared.loaded_packs.offered
    }

    /// Returns the offered packs of which a caller with this visibility may see at least one tool.
    pub fn packs_for(&self, visibility: &Visibility) -> Packs {
        visibility.packs(self.packs())
    }

    /// Returns the calls that wait for approval.
    pub fn approvals(&self) -> &Approvals {
        &self.shared.approvals
    }

    /// Returns the state that outlives reloads.
    pub fn process(&self) -> &Arc<Process> {
        &self.shared.process
    }

    /// Returns the counters of the process.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.shared.process.metrics
    }

    /// Collects all values for the metrics endpoint.
    pub fn scrape(&self) -> Scrape {
        Scrape {
            metrics: Arc::clone(self.metrics()),
            servers: self.server_reports(),
            system: System::look(),
            tools: self.registry().len(),
            load: self.executor().load(),
            cache: self.executor().cache_counts(),
            lost_records: self.shared.state.as_ref().map_or(0, State::lost_records),
            packs: self.packs().counters(),
        }
    }

    /// Returns the known state of each MCP server, without sending requests.
    pub fn server_reports(&self) -> Vec<ServerReport> {
        self.shared.upstreams.reports()
    }

    /// Returns why the store, or the directory of stored results, cannot be written, as far as the
    /// latest write or check has shown.
    pub fn store_failure(&self) -> Option<String> {
        let failure = self.shared.state.as_ref()?.store_failure();
        failure.or_else(|| self.results()?.failure())
    }

    /// Checks whether the store and the directory of stored results can be written, at most once a
    /// second, for [`store_failure`](Self::store_failure). Takes at most a second.
    pub async fn check_store(&self) {
        if let Some(state) = &self.shared.state {
            let results = async {
                if let Some(results) = self.results() {
                    results.check().await;
                }
            };
            join(state.check_store(), results).await;
        }
    }

    /// Returns whether the store's file was deleted or replaced. If so, every call fails.
    pub fn is_store_missing(&self) -> bool {
        let state = self.shared.state.as_ref();
        state.is_some_and(|state| state.store_file_failure().is_some())
    }

    /// Returns whether `tools/list` was sent to every MCP server at least once.
    pub fn has_tried_discovery(&self) -> bool {
        self.shared.upstreams.was_tried()
    }

    /// Lists the tools of the MCP servers whose lists are due. Returns the servers that failed.
    pub async fn discover(&self) -> Vec<UnavailableServer> {
        let unavailable = self.shared.upstreams.discover().await;
        self.log_missing_tools(&unavailable);
        unavailable
    }

    /// Lists the tools of the MCP servers whose lists are due, for all callers and for this caller,
    /// within `limit`. Returns the servers that failed, and the caller's own tools.
    pub async fn list_servers(
        &self,
        limit: Duration,
        context: &CallContext,
    ) -> (Vec<UnavailableServer>, Own) {
        let (unavailable, own) = self.upstreams().list_within(limit, context).await;
        self.log_missing_tools(&unavailable);
        (unavailable, own)
    }

    fn log_missing_tools(&self, unavailable: &[UnavailableServer]) {
        if unavailable.is_empty() {
            self.shared.unknown_tools.log_missing(self.registry());
        }
    }

    /// Returns the tools that a caller with this visibility is offered, including the caller's own
    /// tools. Lists the tools of MCP servers first where that is due.
    pub async fn tools_for(&self, context: &CallContext, visibility: &Visibility) -> Offered {
        let limit = self.upstreams().list_timeout();
        self.tools_within(limit, context, visibility).await
    }

    /// Returns what [`tools_for`](Self::tools_for) returns, without the tools of servers that do
    /// not list them within `limit`.
    pub async fn tools_within(
        &self,
        limit: Duration,
        context: &CallContext,
        visibility: &Visibility,
    ) -> Offered {
        let limit = limit.min(self.upstreams().list_timeout());
        let (unavailable_servers, own) = self.list_servers(limit, context).await;
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

    /// Looks up the tools with these names for a caller. If a tool is missing, or calls a missing
    /// tool, first lists the tools of the MCP servers that may have the missing tool.
    pub async fn resolve(
        &self,
        context: &CallContext,
        visibility: &Visibility,
        scope: NameScope,
        names: &[&str],
    ) -> Resolution {
        let lookup = ToolLookup {
            gateway: self,
            visibility,
            scope,
            names,
        };
        lookup.resolve(context).await
    }

    /// Returns the maximum duration of one call of these tools, of which only the names are given, or
    /// of a call of any tool if there are none.
    pub fn timeout_of_calls<'a>(&self, names: impl Iterator<Item = &'a str>) -> Duration {
        let limits = names.map(|name| self.executor().timeout_of(name));
        limits
            .max()
            .unwrap_or_else(|| self.executor().timeout_of(""))
    }

    /// Returns the prefix of the tool names of the MCP server with this label.
    pub fn tool_prefix(&self, label: &str) -> &str {
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
