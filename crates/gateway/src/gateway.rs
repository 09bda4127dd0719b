//! For all interfaces, looks up the tools that callers name, and runs the calls with the tools,
//! upstream servers, models and limits of the configuration.

mod builder;
mod unknown_tools;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join;
use indexmap::IndexMap;
use pillion_config::Config;
use pillion_core::compose::CheckpointStore;
use pillion_core::executor::Executor;
use pillion_core::pack::Packs;
use pillion_core::registry::{RegisteredTool, ToolRegistry, repaired_names};
use pillion_core::store::Store;
use pillion_core::tool::{CallContext, Nesting, ToolFailure, ToolName};
use pillion_wire::UnavailableServer;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::approvals::Approvals;
use crate::connections::ServerReport;
use crate::credentials::UserCredentials;
use crate::declared_tools::RegisteredTools;
use crate::metrics::{Metrics, Scrape, SystemMetrics};
use crate::models::Models;
use crate::packs::LoadedPacks;
use crate::process::Process;
use crate::results::Results;
use crate::state::State;
use crate::tool_keys::ToolKeys;
use crate::upstream::{BlockedTool, CallerTools, UnavailableTool, UpstreamTool, Upstreams};
use crate::visibility::Visibility;
use crate::wasm_tools::WasmTools;
use crate::workers::Workers;
use builder::GatewayBuilder;
pub use builder::{GatewayParts, ReloadScope};
use unknown_tools::UnknownTools;

/// Maximum time for ending the sessions with MCP servers.
const SESSION_CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The tools, upstream servers, models and limits of one configuration. Cheap to clone.
///
/// A `Gateway` never changes: a reload of the configuration builds a new `Gateway`, which takes
/// over the registry, the counters and the workers.
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
    registered_tools: RegisteredTools,
    /// Whether `registered_tools` includes built-in tools and packs. If `false`, `registered_tools`
    /// contains only declared tools.
    has_all_tools: bool,
    /// Stores the steps of composed tools; in memory if there is no store.
    checkpoints: Arc<dyn CheckpointStore>,
    loaded_packs: LoadedPacks,
    process: Arc<Process>,
    /// A channel whose receivers detect when the last clone of this `Gateway` is dropped.
    drop_signal: watch::Sender<()>,
}

/// The tools that are offered to one caller.
pub struct VisibleTools {
    /// The tools, including those in `caller_tools`.
    pub tools: Vec<Arc<RegisteredTool>>,
    /// The caller's per-user tools.
    pub caller_tools: CallerTools,
    /// The shared MCP servers whose tools could not be listed. Servers that list tools for the
    /// caller alone are in `caller_tools`.
    pub unavailable_servers: Vec<UnavailableServer>,
}

impl VisibleTools {
    /// Returns all MCP servers whose tools could not be listed: shared servers, and servers that
    /// list tools for the caller alone.
    #[must_use]
    pub fn unavailable_servers(self) -> Vec<UnavailableServer> {
        let mut unavailable_servers = self.unavailable_servers;
        unavailable_servers.extend(self.caller_tools.unavailable_servers);
        unavailable_servers
    }

    /// Returns the tools of MCP servers, as the servers listed them.
    #[must_use]
    pub fn server_tools(&self, gateway: &Gateway) -> IndexMap<ToolName, Arc<UpstreamTool>> {
        let mut tools = gateway.upstreams().tools();
        let caller_tools = self.caller_tools.listed_tools.iter();
        tools.extend(caller_tools.map(|(name, tool)| (name.clone(), Arc::clone(tool))));
        tools
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("executor", &self.executor)
            .field("registered_tools", &self.registered_tools)
            .finish_non_exhaustive()
    }
}

impl Gateway {
    fn new(shared: Shared) -> Self {
        let unknown_tools = Arc::clone(&shared.unknown_tools);
        unknown_tools.check_servers(shared.executor.registry());
        shared.process.events.set_new_tool_observer(unknown_tools);
        let shared = Arc::new(shared);
        Self { shared }
    }

    /// Builds a gateway from a configuration. Performs no I/O: the tools of MCP servers are listed
    /// on first use.
    #[must_use]
    pub fn build(config: &Config, parts: GatewayParts) -> Self {
        GatewayBuilder(config).build(parts)
    }

    /// Returns the [`Gateway`] of a new configuration. The registry stays the same, except for
    /// tools of MCP servers and of the configuration that were removed or changed; the counters of
    /// limits and metrics continue. Running calls finish with the `Gateway` with which they began.
    pub async fn reload(&self, config: &Config, scope: ReloadScope) -> Self {
        GatewayBuilder(config).reload(&self.shared, scope).await
    }

    /// Releases this [`Gateway`] after `successor` has replaced it. When the last request has
    /// finished with this `Gateway`, ends the sessions with those MCP servers that `successor` does
    /// not have.
    pub fn retire(self, successor: &Self) -> impl Future<Output = ()> + Send + use<> {
        let Self { shared } = self;
        let mut drop_receiver = shared.drop_signal.subscribe();
        let upstreams = Arc::clone(&shared.upstreams);
        let removed_servers = upstreams.servers_missing_from(&successor.shared.upstreams);
        async move {
            drop((shared, upstreams));
            // Waiting for the channel ends with an error, because no value is ever sent and the
            // last sender is dropped.
            while drop_receiver.changed().await.is_ok() {}
            removed_servers.disconnect().await;
        }
    }

    /// Returns the executor that runs the calls.
    #[must_use]
    pub fn executor(&self) -> &Executor {
        &self.shared.executor
    }

    /// Returns the maximum duration of one chat request: the chat timeout plus the maximum wait for
    /// approvals.
    pub fn max_chat_duration(&self) -> Duration {
        let chat_timeout = self.models().chat().timeout;
        chat_timeout.saturating_add(self.approvals().section().max_wait)
    }

    /// Returns the tool registry.
    #[must_use]
    pub fn registry(&self) -> &Arc<ToolRegistry> {
        self.shared.executor.registry()
    }

    /// Returns the state that outlives the process; `None` if there is no store.
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

    /// Returns the API keys that built-in tools need, and where each key comes from.
    pub fn tool_keys(&self) -> &ToolKeys {
        &self.shared.tool_keys
    }

    /// Returns the worker processes, which register tools.
    pub fn workers(&self) -> &Arc<Workers> {
        &self.shared.workers
    }

    /// Returns the tools that are WebAssembly components.
    pub fn wasm_tools(&self) -> &Arc<WasmTools> {
        &self.shared.wasm_tools
    }

    /// Returns the offered packs, with their resources and counters.
    pub fn packs(&self) -> &Packs {
        &self.shared.loaded_packs.offered_packs
    }

    /// Returns the offered packs with at least one tool that a caller with this visibility may see.
    pub fn visible_packs(&self, visibility: &Visibility) -> Packs {
        visibility.packs(self.packs())
    }

    /// Returns the approvals of calls.
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
            system: SystemMetrics::read(),
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

    /// Returns why the store or the directory of stored results cannot be written. The failure is
    /// that of the latest write or check, whose success clears it; this function checks nothing.
    pub fn store_failure(&self) -> Option<String> {
        let failure = self.shared.state.as_ref()?.store_failure();
        failure.or_else(|| self.results()?.failure())
    }

    /// Checks whether the store and the directory of stored results can be written, at most once a
    /// second. Returns after at most a second; [`store_failure`](Self::store_failure) returns the
    /// outcome.
    pub async fn check_store(&self) {
        if let Some(state) = &self.shared.state {
            let results_check = async {
                if let Some(results) = self.results() {
                    results.check().await;
                }
            };
            join(state.check_store(), results_check).await;
        }
    }

    /// Returns whether the store's file was deleted or replaced. If so, every call fails.
    pub fn is_store_missing(&self) -> bool {
        let state = self.shared.state.as_ref();
        state.is_some_and(|state| state.store_file_failure().is_some())
    }

    /// Returns whether `tools/list` was sent to every MCP server at least once.
    pub fn has_tried_discovery(&self) -> bool {
        self.shared.upstreams.has_tried_discovery()
    }

    /// Lists the tools of the MCP servers whose lists are missing or stale. Returns the servers
    /// that failed.
    pub async fn discover(&self) -> Vec<UnavailableServer> {
        let unavailable_servers = self.shared.upstreams.discover().await;
        self.log_missing_tools(&unavailable_servers);
        unavailable_servers
    }

    /// Lists the tools of the MCP servers whose lists are missing or stale, for all callers and for
    /// this caller, within `limit`. Returns the servers that failed, and the caller's per-user
    /// tools.
    pub async fn list_servers(
        &self,
        limit: Duration,
        context: &CallContext,
    ) -> (Vec<UnavailableServer>, CallerTools) {
        let (unavailable_servers, caller_tools) =
            self.upstreams().list_with_timeout(limit, context).await;
        self.log_missing_tools(&unavailable_servers);
        (unavailable_servers, caller_tools)
    }

    fn log_missing_tools(&self, unavailable_servers: &[UnavailableServer]) {
        if unavailable_servers.is_empty() {
            self.shared.unknown_tools.log_missing_names(self.registry());
        }
    }

    /// Returns the tools that a caller with this visibility is offered, including the caller's
    /// per-user tools. First lists the tools of the MCP servers whose lists are missing or stale.
    pub async fn list_visible_tools(
        &self,
        context: &CallContext,
        visibility: &Visibility,
    ) -> VisibleTools {
        let limit = self.upstreams().list_timeout();
        self.list_visible_tools_with_timeout(limit, context, visibility)
            .await
    }

    /// Returns the tools like [`list_visible_tools`](Self::list_visible_tools), but waits at most
    /// `limit` for the lists. Servers that do not respond within `limit` are unavailable.
    pub async fn list_visible_tools_with_timeout(
        &self,
        limit: Duration,
        context: &CallContext,
        visibility: &Visibility,
    ) -> VisibleTools {
        let limit = limit.min(self.upstreams().list_timeout());
        let (unavailable_servers, caller_tools) = self.list_servers(limit, context).await;
        let mut tools = self.registry().tools(None);
        self.shared.upstreams.sort_by_config(&mut tools);
        tools.extend(caller_tools.tools.values().cloned());
        tools.retain(|tool| visibility.admits(tool, tool.name().as_str()));
        VisibleTools {
            tools,
            caller_tools,
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

    /// Returns the longest call timeout among the tools with these names. Without names, returns
    /// the default timeout of a call.
    pub fn timeout_of_calls<'a>(&self, names: impl Iterator<Item = &'a str>) -> Duration {
        let executor = self.executor();
        let timeouts = names.map(|name| executor.timeout_of(name));
        timeouts.max().unwrap_or_else(|| executor.timeout_of(""))
    }

    /// Returns the prefix that the tools of the MCP server with this label have in the registry;
    /// empty for an unknown label.
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

/// The names by which a caller may call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameScope {
    /// The names and aliases of the registry, and misspelled names that are
    /// [repaired](repaired_names) to one of them.
    Registered,
    /// The names and aliases of the registry, and the names that MCP clients see. MCP clients see
    /// the unprefixed name of a server's tool if the configuration sets no prefix for the server,
    /// and no other tool has the name or could have it.
    ListedToClients,
}

/// The tools that were found for the names that one caller gave.
#[derive(Debug)]
pub struct Resolution {
    /// For each name, in order: the tool, or the reason why the caller has no tool with the name.
    pub tools: Vec<Result<Arc<RegisteredTool>, MissingTool>>,
    /// The caller's per-user tools; `None` if every tool was found without them.
    pub caller_tools: Option<CallerTools>,
    /// The shared MCP servers that failed when the lookup requested their tools.
    pub unavailable_servers: Vec<UnavailableServer>,
    /// The duration of the lookup, which counts toward the deadlines of the calls.
    pub duration: Duration,
}

/// Why a caller has no tool with a name. Does not reveal a tool that the caller may not see.
#[derive(Debug)]
pub enum MissingTool {
    /// The caller has no credential for the tool's server.
    NoCredential(Box<ToolFailure>),
    /// The tool's definition differs from its pin.
    Blocked(BlockedTool),
    /// The tool's server is unavailable.
    Unavailable(UnavailableTool),
    /// No tool has the name.
    Unknown,
}

impl Resolution {
    /// Returns the tool of a lookup that had a single name.
    pub fn take_only(&mut self) -> Result<Arc<RegisteredTool>, MissingTool> {
        self.tools.pop().unwrap_or(Err(MissingTool::Unknown))
    }

    /// Returns an executor for calls of the found tools. Nested calls may also use the caller's
    /// per-user tools.
    pub fn executor(&self, gateway: &Gateway) -> Executor {
        let executor = gateway.executor();
        match &self.caller_tools {
            Some(caller_tools) => executor.with_caller_tools(Arc::clone(&caller_tools.tools)),
            None => executor.clone(),
        }
    }
}

/// A lookup of tools for one caller.
struct ToolLookup<'a> {
    gateway: &'a Gateway,
    visibility: &'a Visibility,
    scope: NameScope,
    names: &'a [&'a str],
}

impl ToolLookup<'_> {
    /// Looks up the tools. If a tool is missing, or calls a missing tool, first lists the tools of
    /// the MCP servers that may have the missing tool.
    async fn resolve(&self, context: &CallContext) -> Resolution {
        let tools = self.visible_tools();
        let missing_names = self.missing_names(&tools);
        if missing_names.is_empty() {
            return Resolution {
                tools,
                caller_tools: None,
                unavailable_servers: Vec::new(),
                duration: Duration::ZERO,
            };
        }
        // The future is boxed, so that the future of a call whose tools are found stays small.
        Box::pin(self.resolve_missing(context, &missing_names)).await
    }

    /// Lists the tools of the MCP servers that may have the tools `missing_names`, then looks up
    /// the tools.
    async fn resolve_missing(&self, context: &CallContext, missing_names: &[String]) -> Resolution {
        let upstreams = self.gateway.upstreams();
        let started_at = Instant::now();
        let limit = self.gateway.timeout_of_calls(self.names.iter().copied());
        let discovery = upstreams.discover_owners_with_timeout(missing_names, limit);
        let unavailable_servers = discovery.await;
        let tools = self.visible_tools();
        let mut missing_names = self.missing_names(&tools);
        let mut caller_tools = CallerTools::default();
        if !missing_names.is_empty() {
            let remaining_time = limit.saturating_sub(started_at.elapsed());
            let lookup =
                upstreams.find_user_tools_with_timeout(context, &missing_names, remaining_time);
            caller_tools = lookup.await;
            missing_names.retain(|name| !self.names.contains(&name.as_str()));
            caller_tools.add_unavailable_tools(upstreams, &missing_names);
        }
        let tools = self.names.iter().zip(tools).map(|(name, shared_tool)| {
            let find_caller_tool = || self.caller_tool_or_not_offered(&caller_tools, name);
            shared_tool
                .ok()
                .or_else(find_caller_tool)
                .ok_or_else(|| self.missing_tool(&caller_tools, name, &unavailable_servers))
        });
        Resolution {
            tools: tools.collect(),
            caller_tools: Some(caller_tools),
            unavailable_servers,
            duration: started_at.elapsed(),
        }
    }

    /// Returns the shared tool of each name, if the caller may see the tool.
    fn visible_tools(&self) -> Vec<Result<Arc<RegisteredTool>, MissingTool>> {
        let tools = self.names.iter().map(|name| {
            self.shared_tool(name)
                .filter(|tool| self.visibility.admits(tool, name))
                .ok_or(MissingTool::Unknown)
        });
        tools.collect()
    }

    /// Returns the shared tool with this name, without checking whether the caller may see the
    /// tool.
    fn shared_tool(&self, name: &str) -> Option<Arc<RegisteredTool>> {
        let registry = self.gateway.registry();
        let tool = registry.get(name);
        match self.scope {
            NameScope::Registered => tool.or_else(|| {
                let mut tools = repaired_names(name).filter_map(|name| registry.get(name));
                tools.find(|tool| tool.is_offered())
            }),
            NameScope::ListedToClients => tool.filter(|tool| tool.is_offered()).or_else(|| {
                let name = self.gateway.upstreams().find_registered_name(name)?;
                registry.get(name.as_str())
            }),
        }
    }

    /// Returns the caller's per-user tool with this name. If there is none, returns the registered
    /// tool with this name even if the tool is not offered: a call of such a tool fails with an
    /// error that says what the tool needs.
    fn caller_tool_or_not_offered(
        &self,
        caller_tools: &CallerTools,
        name: &str,
    ) -> Option<Arc<RegisteredTool>> {
        if self.shared_tool(name).is_some() {
            // No tool is returned, because the name belongs to a tool that the caller may not see.
            return None;
        }
        let tools = &caller_tools.tools;
        let find_by_other_name = || match self.scope {
            NameScope::Registered => repaired_names(name).find_map(|name| tools.get(name).cloned()),
            NameScope::ListedToClients => {
                caller_tools.find_by_unprefixed_name(self.gateway.upstreams(), name)
            }
        };
        let caller_tool = tools.get(name).cloned().or_else(find_by_other_name);
        caller_tool
            .or_else(|| self.gateway.registry().get(name))
            .filter(|tool| self.visibility.admits(tool, name))
    }

    /// Returns why the caller has no tool with this name.
    fn missing_tool(
        &self,
        caller_tools: &CallerTools,
        name: &str,
        unavailable_servers: &[UnavailableServer],
    ) -> MissingTool {
        let (upstreams, visibility) = (self.gateway.upstreams(), self.visibility);
        match MissingTool::find(
            upstreams,
            visibility,
            caller_tools,
            name,
            unavailable_servers,
        ) {
            MissingTool::Unknown if self.scope == NameScope::ListedToClients => {
                let unavailable_tool =
                    upstreams.find_unavailable_unprefixed_tool(name, unavailable_servers);
                MissingTool::from_unavailable_tool(unavailable_tool, visibility, name)
            }
            reason => reason,
        }
    }

    /// Returns the names for which no tool was found, and the names of missing tools that the found
    /// tools call.
    fn missing_names(&self, tools: &[Result<Arc<RegisteredTool>, MissingTool>]) -> Vec<String> {
        let mut missing_names = Vec::new();
        for (name, tool) in self.names.iter().zip(tools) {
            match tool {
                Ok(tool) => {
                    self.add_missing_nested_names(tool, Nesting::MAX_DEPTH, &mut missing_names);
                }
                Err(_) => missing_names.push((*name).to_owned()),
            }
        }
        missing_names
    }

    fn add_missing_nested_names(
        &self,
        tool: &RegisteredTool,
        depth: usize,
        missing_names: &mut Vec<String>,
    ) {
        for name in tool.tool().called_tools() {
            match self.gateway.registry().get(name) {
                Some(called_tool) if depth > 0 => {
                    self.add_missing_nested_names(&called_tool, depth - 1, missing_names);
                }
                Some(_) => {}
                None if missing_names
                    .iter()
                    .any(|missing_name| missing_name == name) => {}
                None => missing_names.push(name.to_owned()),
            }
        }
    }
}

impl MissingTool {
    /// Returns why a caller with the per-user tools `caller_tools` has no tool with this name.
    pub fn find(
        upstreams: &Upstreams,
        visibility: &Visibility,
        caller_tools: &CallerTools,
        name: &str,
        unavailable_servers: &[UnavailableServer],
    ) -> Self {
        let missing_credential = caller_tools
            .missing_credential(upstreams, name)
            .filter(|credential| visibility.is_name_visible(name, name, &credential.origin));
        if let Some(missing_credential) = missing_credential {
            return Self::NoCredential(Box::new(missing_credential.failure.clone()));
        }
        let blocked_tool = upstreams.find_blocked_tool(name).filter(|blocked_tool| {
            visibility.is_name_visible(&blocked_tool.name(), name, &blocked_tool.origin())
        });
        if let Some(blocked_tool) = blocked_tool {
            return Self::Blocked(blocked_tool);
        }
        let servers = unavailable_servers
            .iter()
            .chain(&caller_tools.unavailable_servers);
        let unavailable_tool = upstreams.unavailable_tool(name, servers);
        Self::from_unavailable_tool(unavailable_tool, visibility, name)
    }

    fn from_unavailable_tool(
        tool: Option<UnavailableTool>,
        visibility: &Visibility,
        name: &str,
    ) -> Self {
        let visible_tool = tool.filter(|tool| visibility.is_name_visible(name, name, &tool.origin));
        visible_tool.map_or(Self::Unknown, Self::Unavailable)
    }
}
