//! What a running sidecar is made of, apart from its sockets.

mod assembly;
mod strangers;
mod succession;

use std::sync::Arc;
use std::time::Duration;

use pillion_core::compose::StepKeeper;
use pillion_core::executor::Executor;
use pillion_core::pack::Packs;
use pillion_core::registry::{RegisteredTool, ToolRegistry};
use pillion_core::store::Store;
use pillion_core::tool::{CallContext, Nesting};
use pillion_wire::UnavailableServer;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::access::Access;
use crate::approvals::Approvals;
use crate::config::HttpSection;
use crate::connections::ServerReport;
use crate::declared_tools::Registered;
use crate::mcp_server::McpServer;
use crate::metrics::{Metrics, Scrape, System};
use crate::models::Models;
use crate::packs::Shelf;
use crate::process::Process;
use crate::results::Results;
use crate::servers::Servers;
use crate::state::State;
use crate::tool_keys::ToolKeys;
use crate::upstream::{Own, Upstreams};
use crate::visibility::Visibility;
use crate::wasm_tools::WasmTools;
use crate::workers::Workers;
use strangers::Strangers;

/// How long the sessions with MCP servers may take to end.
const FAREWELL: Duration = Duration::from_secs(2);

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
    servers: Option<Arc<Servers>>,
    results: Option<Arc<Results>>,
    mcp: Arc<McpServer>,
    models: Arc<Models>,
    tool_keys: ToolKeys,
    strangers: Strangers,
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

impl App {
    fn of(shared: Shared) -> Self {
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The executor that runs the calls.
    #[must_use]
    pub fn executor(&self) -> &Executor {
        &self.shared.executor
    }

    /// How long one request to a chat may take: its own time, and that of waiting for decisions.
    pub(crate) fn longest_chat(&self) -> Duration {
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
        self.shared.servers.as_ref()
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

    /// Why records of calls could not be written the last time, if they could not.
    pub(crate) fn store_failure(&self) -> Option<String> {
        self.shared.state.as_ref()?.store_failure()
    }

    /// Returns whether the file of the store was deleted or replaced, so that every call fails.
    pub(crate) fn is_store_gone(&self) -> bool {
        let state = self.shared.state.as_ref();
        state.is_some_and(|state| state.store_file_failure().is_some())
    }

    /// Whether every MCP server was asked for its tools at least once.
    pub(crate) fn was_discovery_tried(&self) -> bool {
        self.shared.upstreams.was_tried()
    }

    /// Asks the MCP servers for their tools where that is due, and names those that failed.
    pub(crate) async fn discover(&self) -> Vec<UnavailableServer> {
        let unavailable = self.shared.upstreams.discover().await;
        if unavailable.is_empty() {
            self.shared.strangers.tell(self.registry());
        }
        unavailable
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
        self.shared.upstreams.put_in_order(&mut tools);
        tools.extend(own.tools.values().cloned());
        tools.retain(|tool| visibility.admits(tool, tool.name().as_str()));
        Offered {
            tools,
            own,
            unavailable_servers,
        }
    }

    /// Asks MCP servers for the names that no visible tool has: the servers whose prefix a name
    /// begins with, or all servers. Returns the servers that failed.
    pub(crate) async fn look_for(
        &self,
        names: &[&str],
        visibility: &Visibility,
    ) -> Vec<UnavailableServer> {
        let missing = self.missing(names, visibility);
        if missing.is_empty() {
            return Vec::new();
        }
        self.shared.upstreams.discover_named(&missing).await
    }

    /// The tools that this caller alone has, if one of the names may be among them.
    pub(crate) async fn own_tools(
        &self,
        context: &CallContext,
        names: &[&str],
        visibility: &Visibility,
    ) -> Own {
        let mut missing = self.missing(names, visibility);
        if missing.is_empty() {
            return Own::default();
        }
        let upstreams = &self.shared.upstreams;
        let mut own = upstreams.own_named(context, &missing).await;
        missing.retain(|name| !names.contains(&name.as_str()));
        own.add_absent(upstreams, &missing);
        own
    }

    /// Returns the names for which no tool is visible to every caller with this visibility, and the
    /// missing tools that the found tools call.
    fn missing(&self, names: &[&str], visibility: &Visibility) -> Vec<String> {
        let mut missing = Vec::new();
        for name in names {
            let tool = self.registry().get(name);
            match tool.filter(|tool| visibility.admits(tool, name)) {
                Some(tool) => self.missing_below(&tool, Nesting::DEEPEST, &mut missing),
                None => missing.push((*name).to_owned()),
            }
        }
        missing
    }

    /// Returns the missing tools among those that a tool calls, directly or through other tools.
    pub(crate) fn missing_of(&self, tool: &RegisteredTool) -> Vec<String> {
        let mut missing = Vec::new();
        self.missing_below(tool, Nesting::DEEPEST, &mut missing);
        missing
    }

    fn missing_below(&self, tool: &RegisteredTool, depth: usize, missing: &mut Vec<String>) {
        for name in tool.tool().called_tools() {
            match self.registry().get(name) {
                Some(called) if depth > 0 => self.missing_below(&called, depth - 1, missing),
                Some(_) => {}
                None if missing.iter().any(|other| other == name) => {}
                None => missing.push(name.to_owned()),
            }
        }
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
