//! What a running sidecar is made of, apart from its sockets.

use std::sync::Arc;
use std::time::Duration;

use pillion_core::compose::StepKeeper;
use pillion_core::executor::{Executor, ExecutorHooks, Observer, Spill};
use pillion_core::pack::Packs;
use pillion_core::registry::{RegisteredTool, ToolRegistry};
use pillion_core::store::Store;
use pillion_core::tool::{CallContext, Tool};
use pillion_wire::UnavailableServer;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::access::Access;
use crate::approvals::Approvals;
use crate::config::{Config, HttpSection};
use crate::declared_tools::{Keeper, Registered};
use crate::events::Both;
use crate::mcp_server::McpServer;
use crate::metrics::{Metrics, Scrape, System};
use crate::models::Models;
use crate::packs::Shelf;
use crate::pins::Pins;
use crate::process::Process;
use crate::results::Results;
use crate::servers::{Servers, UserCredentials};
use crate::state::State;
use crate::telemetry::Telemetry;
use crate::tool_keys::ToolKeys;
use crate::tools;
use crate::upstream::{Listeners, Own, ServerReport, Upstreams};
use crate::visibility::Visibility;
use crate::wasm_tools::WasmTools;
use crate::workers::Workers;

/// How long the sessions with MCP servers may take to end.
const FAREWELL: Duration = Duration::from_secs(2);

/// How deep tools are looked at that are made of others.
const MOST_NESTED: usize = 8;

/// What every request handler shares. Cheap to clone.
///
/// It never changes: a reload of the configuration makes another one, and a request keeps the
/// one that it began with ([`Live`](crate::live::Live)).
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
    results: Option<Arc<Results>>,
    mcp: Arc<McpServer>,
    models: Arc<Models>,
    tool_keys: ToolKeys,
    workers: Arc<Workers>,
    wasm_tools: Arc<WasmTools>,
    /// The tools of the configuration.
    registered: Registered,
    /// Whether those are all that it has, or what it declares alone.
    has_all_tools: bool,
    /// What composed tools keep where nothing is stored.
    keeper: Arc<dyn StepKeeper>,
    shelf: Shelf,
    process: Arc<Process>,
    /// Closed when nobody uses this state any more.
    used: watch::Sender<()>,
}

/// The tools that there are for somebody.
pub(crate) struct Offered {
    pub(crate) tools: Vec<Arc<RegisteredTool>>,
    /// What of it the caller alone has.
    pub(crate) own: Own,
    /// The servers that could not be asked, but for those that were asked for the caller alone.
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

impl Config {
    /// Puts together what the configuration asks for, over the tools of `registry`. No
    /// I/O happens: MCP servers are asked for their tools when somebody needs them. Without
    /// `state` nothing outlives the process, and no call is recorded.
    ///
    /// Its rules for those who connect are not in force: they want users looked up and tokens
    /// read, as [`build_with`](Self::build_with) has it.
    #[must_use]
    pub fn build(&self, registry: Arc<ToolRegistry>, state: Option<State>) -> App {
        self.build_with(registry, state, Access::default())
    }

    /// As [`build`](Self::build), with the rules for those who connect.
    #[must_use]
    pub fn build_with(
        &self,
        registry: Arc<ToolRegistry>,
        state: Option<State>,
        access: Access,
    ) -> App {
        self.put_together(registry, state, access, false)
    }

    /// As [`build_with`](Self::build_with), with the built-in tools and the packs that the
    /// configuration has over what is stored.
    #[must_use]
    pub fn build_whole(&self, registry: Arc<ToolRegistry>, state: State, access: Access) -> App {
        self.put_together(registry, Some(state), access, true)
    }

    fn put_together(
        &self,
        registry: Arc<ToolRegistry>,
        state: Option<State>,
        access: Access,
        has_all_tools: bool,
    ) -> App {
        let process = Arc::new(Process::new(Telemetry::start(&self.telemetry)));
        process.let_in(&access.peers);
        let results = self.results(state.as_ref());
        let approvals = Approvals::new(self, state.as_ref(), &process);
        let hooks = self.hooks(state.as_ref(), results.as_ref(), &process, &approvals);
        let credentials = credentials_of(state.as_ref());
        let upstreams = Upstreams::new(
            &self.mcp_servers,
            self.mcp.clone(),
            Arc::clone(&registry),
            Listeners {
                events: Arc::clone(&process.events),
                connections: process.connections.clone(),
                telemetry: process.telemetry.clone(),
            },
            Pins::new(state.as_ref().map(State::store)),
            credentials.clone(),
        );
        process.metrics.tools.know_servers(upstreams.listings());
        let mcp = Arc::new(McpServer::default());
        let models = Arc::new(Models::new(self, &credentials));
        let workers = Workers::new(
            Arc::clone(&registry),
            Arc::clone(&mcp),
            Arc::clone(&process.events),
            self.workers.clone(),
        );
        let wasm_tools = WasmTools::new(
            Arc::clone(&registry),
            Arc::clone(&mcp),
            Arc::clone(&process.events),
            &self.wasm_tools,
        );
        let keeper = self.keeper(state.as_ref());
        let (shelf, tools) = self.tools_of(
            &Shelf::default(),
            &models,
            state.as_ref().filter(|_| has_all_tools),
            &keeper,
        );
        let registered = Registered::default().succeeded_by(tools, &registry, None);
        set_aliases(&registry);
        mcp.offer_packs(&shelf.offered);
        let executor = Executor::with_hooks(registry, self.executor_config(), hooks);
        App::of(Shared {
            executor,
            upstreams: Arc::new(upstreams),
            http: self.http.clone(),
            access,
            approvals,
            state,
            results,
            mcp,
            models,
            tool_keys: ToolKeys::of(&self.builtins),
            workers,
            wasm_tools,
            registered,
            has_all_tools,
            keeper,
            shelf,
            process,
            used: watch::Sender::new(()),
        })
    }

    /// The packs, and all tools that the configuration has; without `state` what it declares alone.
    fn tools_of(
        &self,
        shelf: &Shelf,
        models: &Models,
        state: Option<&State>,
        keeper: &Arc<dyn StepKeeper>,
    ) -> (Shelf, Vec<Arc<dyn Tool>>) {
        let Some(state) = state else {
            return (shelf.clone(), self.declared.tools(keeper));
        };
        let mut tools = tools::configured(self, Some(state.store()), &credentials_of(Some(state)));
        let (shelf, of_packs) = shelf.succeeded_by(self, models, state.store());
        tools.extend(of_packs);
        tools.extend(self.declared.tools(keeper));
        (shelf, tools)
    }

    fn keeper(&self, state: Option<&State>) -> Arc<dyn StepKeeper> {
        Keeper::over(state.map(State::store), self.approvals.expires_after)
    }

    fn results(&self, state: Option<&State>) -> Option<Arc<Results>> {
        state?.results(self).map(Arc::new)
    }

    /// Who takes part in the calls: those who approve them, the call log, the statistics, whoever
    /// listens; and where large results go.
    fn hooks(
        &self,
        state: Option<&State>,
        results: Option<&Arc<Results>>,
        process: &Process,
        approvals: &Approvals,
    ) -> ExecutorHooks {
        let metrics: Arc<dyn Observer> = Arc::clone(&process.metrics.tools) as _;
        let events: Arc<dyn Observer> = Arc::clone(&process.events) as _;
        ExecutorHooks {
            approver: Some(Arc::new(approvals.clone())),
            journal: state.map(|state| state.journal(self)),
            observer: Some(Arc::new(Both(metrics, events))),
            tracer: process.telemetry.clone().map(|telemetry| telemetry as _),
            spill: results.map(|results| Arc::<Results>::clone(results) as Arc<dyn Spill>),
            ..ExecutorHooks::default()
        }
    }
}

impl App {
    fn of(shared: Shared) -> Self {
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The state of another configuration that takes this one's place: over the same tools,
    /// but for those of MCP servers and of the configuration that are gone or have changed; with
    /// what the limits have counted; with the same statistics. Calls that run keep what they began
    /// with.
    pub async fn succeeded_by(&self, config: &Config, access: Access) -> Self {
        self.followed_by(config, Some(access)).await
    }

    /// The same where nothing but the MCP servers has changed.
    pub(crate) async fn with_servers_of(&self, config: &Config) -> Self {
        self.followed_by(config, None).await
    }

    async fn followed_by(&self, config: &Config, reloaded: Option<Access>) -> Self {
        let old = &*self.shared;
        let upstreams = old
            .upstreams
            .succeeded_by(&config.mcp_servers, config.mcp.clone())
            .await;
        old.process.metrics.tools.know_servers(upstreams.listings());
        old.mcp.reconfigure();
        old.workers.reconfigure(&config.workers);
        old.wasm_tools.reconfigure(&config.wasm_tools);
        // What is kept in memory is kept on.
        let keeper = match &old.state {
            Some(state) => config.keeper(Some(state)),
            None => Arc::clone(&old.keeper),
        };
        let models = Arc::new(Models::new(config, &credentials_of(old.state.as_ref())));
        let (mut shelf, mut registered) = (old.shelf.clone(), old.registered.clone());
        if reloaded.is_some() {
            let state = old.state.as_ref().filter(|_| old.has_all_tools);
            let (registry, events) = (old.executor.registry(), &old.process.events);
            let tools;
            (shelf, tools) = config.tools_of(&old.shelf, &models, state, &keeper);
            registered = old.registered.succeeded_by(tools, registry, Some(events));
            set_aliases(registry);
        }
        let access = reloaded.unwrap_or_else(|| old.access.clone());
        let results = config.results(old.state.as_ref());
        let approvals = Approvals::new(config, old.state.as_ref(), &old.process);
        let hooks = config.hooks(
            old.state.as_ref(),
            results.as_ref(),
            &old.process,
            &approvals,
        );
        Self::of(Shared {
            executor: old.executor.reconfigured(config.executor_config(), hooks),
            upstreams,
            http: config.http.clone(),
            access,
            approvals,
            state: old.state.clone(),
            results,
            mcp: Arc::clone(&old.mcp),
            models,
            tool_keys: ToolKeys::of(&config.builtins),
            workers: Arc::clone(&old.workers),
            wasm_tools: Arc::clone(&old.wasm_tools),
            registered,
            has_all_tools: old.has_all_tools,
            keeper,
            shelf,
            process: Arc::clone(&old.process),
            used: watch::Sender::new(()),
        })
    }

    /// Lets go of this state, whose place `successor` has taken: once the last request is done
    /// with it, the sessions with those MCP servers end that the successor does not have.
    pub fn retire(self, successor: &Self) -> impl Future<Output = ()> + Send + use<> {
        let Self { shared } = self;
        let mut used = shared.used.subscribe();
        let upstreams = Arc::clone(&shared.upstreams);
        let gone = upstreams.without(&successor.shared.upstreams);
        async move {
            drop((shared, upstreams));
            // Nothing is ever sent: this ends when the last holder is gone.
            while used.changed().await.is_ok() {}
            gone.disconnect().await;
        }
    }

    /// The executor that runs the calls.
    #[must_use]
    pub fn executor(&self) -> &Executor {
        &self.shared.executor
    }

    /// How long one request to a chat may take: its own time, and that of waiting for decisions.
    pub(crate) fn longest_chat(&self) -> std::time::Duration {
        let chat = self.models().chat().timeout;
        chat.saturating_add(self.approvals().section().max_wait)
    }

    /// The tools there are.
    #[must_use]
    pub fn registry(&self) -> &Arc<ToolRegistry> {
        self.shared.executor.registry()
    }

    /// The limits of the HTTP server.
    #[must_use]
    pub fn http(&self) -> &HttpSection {
        &self.shared.http
    }

    /// What outlives the process, if anything does.
    pub(crate) fn state(&self) -> Option<&State> {
        self.shared.state.as_ref()
    }

    /// The results that are too large to be handed over at once, if there is a place for them.
    pub(crate) fn results(&self) -> Option<&Arc<Results>> {
        self.shared.results.as_ref()
    }

    /// What is kept, if anything is.
    pub(crate) fn store(&self) -> Option<Arc<dyn Store>> {
        self.shared.state.as_ref().map(State::store)
    }

    /// The MCP servers that may be added and changed, if anything is kept.
    pub(crate) fn servers(&self) -> Option<&Arc<Servers>> {
        self.shared.state.as_ref()?.servers()
    }

    /// The MCP servers whose tools are offered.
    pub(crate) fn upstreams(&self) -> &Upstreams {
        &self.shared.upstreams
    }

    /// What the MCP server keeps between requests.
    pub(crate) fn mcp(&self) -> &McpServer {
        &self.shared.mcp
    }

    /// The language models.
    pub(crate) fn models(&self) -> &Arc<Models> {
        &self.shared.models
    }

    /// The keys that the built-in tools want.
    pub(crate) fn tool_keys(&self) -> &ToolKeys {
        &self.shared.tool_keys
    }

    /// The processes that offer tools of their own.
    pub(crate) fn workers(&self) -> &Arc<Workers> {
        &self.shared.workers
    }

    /// The tools that are WebAssembly components.
    pub(crate) fn wasm_tools(&self) -> &Arc<WasmTools> {
        &self.shared.wasm_tools
    }

    /// What packs have beside their tools.
    pub(crate) fn packs(&self) -> &Packs {
        &self.shared.shelf.offered
    }

    /// What of it is for who sees that much.
    pub(crate) fn packs_for(&self, visibility: &Visibility) -> Packs {
        visibility.packs(self.packs())
    }

    /// Who may do what.
    #[must_use]
    pub fn access(&self) -> &Access {
        &self.shared.access
    }

    /// The calls that wait for somebody's approval.
    pub(crate) fn approvals(&self) -> &Approvals {
        &self.shared.approvals
    }

    /// What lives as long as the process.
    pub(crate) fn process(&self) -> &Arc<Process> {
        &self.shared.process
    }

    /// What was counted so far.
    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.shared.process.metrics
    }

    /// Everything that there is to know for statistics.
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

    /// What is known of each MCP server, without asking any.
    pub(crate) fn server_reports(&self) -> Vec<ServerReport> {
        self.shared.upstreams.reports()
    }

    /// Whether every MCP server was asked for its tools at least once.
    pub(crate) fn was_discovery_tried(&self) -> bool {
        self.shared.upstreams.was_tried()
    }

    /// Asks the MCP servers for their tools where that is due, and names those that failed.
    pub(crate) async fn discover(&self) -> Vec<UnavailableServer> {
        self.shared.upstreams.discover().await
    }

    /// The tools that there are for who sees that much, the caller's own included. MCP servers that
    /// have not been asked for theirs are asked now.
    pub(crate) async fn offered_to(
        &self,
        context: &CallContext,
        visibility: &Visibility,
    ) -> Offered {
        let unavailable_servers = self.discover().await;
        let own = self.shared.upstreams.own(context).await;
        let mut tools = self.registry().tools(None);
        tools.extend(own.tools.values().cloned());
        tools.retain(|tool| visibility.admits(tool, tool.name().as_str()));
        Offered {
            tools,
            own,
            unavailable_servers,
        }
    }

    /// Asks the MCP servers if a name is unknown to who sees that much, for it may be one of
    /// theirs, and names those that failed.
    pub(crate) async fn look_for(
        &self,
        names: &[&str],
        visibility: &Visibility,
    ) -> Vec<UnavailableServer> {
        if self.has_all(names, visibility) {
            return Vec::new();
        }
        self.discover().await
    }

    /// The tools that this caller alone has, if one of the names may be among them.
    pub(crate) async fn own_tools(
        &self,
        context: &CallContext,
        names: &[&str],
        visibility: &Visibility,
    ) -> Own {
        if self.has_all(names, visibility) {
            return Own::default();
        }
        self.shared.upstreams.own(context).await
    }

    /// Whether each name is that of a tool that is there for everybody who sees that much.
    fn has_all(&self, names: &[&str], visibility: &Visibility) -> bool {
        names.iter().all(|name| {
            let tool = self.registry().get(name);
            tool.is_some_and(|tool| visibility.admits(&tool, name) && self.has_called(&tool))
        })
    }

    /// Whether the tools that a tool calls are there for everybody, and those that these call.
    pub(crate) fn has_called(&self, tool: &RegisteredTool) -> bool {
        self.has_called_within(tool, MOST_NESTED)
    }

    fn has_called_within(&self, tool: &RegisteredTool, depth: usize) -> bool {
        tool.tool().called_tools().into_iter().all(|name| {
            let called = self.registry().get(name);
            called.is_some_and(|called| depth == 0 || self.has_called_within(&called, depth - 1))
        })
    }

    /// What stands before the names of the tools of the MCP server with that label.
    pub(crate) fn tool_prefix(&self, label: &str) -> &str {
        self.shared.upstreams.tool_prefix(label)
    }

    /// Ends the sessions with the MCP servers. Whether they hear of it in time is their affair.
    pub(crate) async fn disconnect(&self) {
        drop(timeout(FAREWELL, self.shared.upstreams.disconnect()).await);
    }
}

fn set_aliases(registry: &ToolRegistry) {
    if let Err(error) = pillion_builtins::set_aliases(registry) {
        tracing::error!(%error, "Not every built-in tool has its other names");
    }
}

/// Where the keys are that users and providers have.
fn credentials_of(state: Option<&State>) -> UserCredentials {
    let servers = state.and_then(State::servers);
    servers.map_or_else(UserCredentials::default, |servers| {
        servers.user_credentials().clone()
    })
}
