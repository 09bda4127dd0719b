//! Builds the state of a sidecar from its configuration.

use std::sync::Arc;

use pillion_core::compose::CheckpointStore;
use pillion_core::executor::{Executor, ExecutorHooks, Observer, ResultStore};
use pillion_core::registry::ToolRegistry;
use pillion_core::tool::Tool;
use tokio::sync::watch;

use super::unknown_tools::UnknownTools;
use super::{App, Shared};
use crate::mcp_server::McpServerState;
use crate::servers::Servers;
use pillion_config::Config;
use pillion_gateway::access::Access;
use pillion_gateway::approvals::Approvals;
use pillion_gateway::credentials::UserCredentials;
use pillion_gateway::declared_tools::{self, Registered, StepCheckpoints};
use pillion_gateway::events::Both;
use pillion_gateway::models::Models;
use pillion_gateway::packs::LoadedPacks;
use pillion_gateway::pins::Pins;
use pillion_gateway::process::Process;
use pillion_gateway::results::Results;
use pillion_gateway::state::State;
use pillion_gateway::telemetry::Telemetry;
use pillion_gateway::tool_keys::ToolKeys;
use pillion_gateway::tools;
use pillion_gateway::upstream::{Listeners, Upstreams};
use pillion_gateway::wasm_tools::WasmTools;
use pillion_gateway::workers::Workers;

impl App {
    /// Builds the state from a configuration, with the tools of `registry`. Performs no I/O: the
    /// tools of MCP servers are listed on first use. Without `state`, nothing outlives the process
    /// and no call is recorded.
    ///
    /// The configuration's access rules are not in force, because they require user lookups and
    /// token files; use [`build_with`](Self::build_with) for those.
    #[must_use]
    pub fn build(config: &Config, registry: Arc<ToolRegistry>, state: Option<State>) -> Self {
        Self::build_with(config, registry, state, Access::default())
    }

    /// Like [`build`](Self::build), with access rules.
    #[must_use]
    pub fn build_with(
        config: &Config,
        registry: Arc<ToolRegistry>,
        state: Option<State>,
        access: Access,
    ) -> Self {
        Assembly(config).app(registry, state, None, access)
    }

    /// Like [`build_with`](Self::build_with), with the built-in tools and the packs of the
    /// configuration, and with MCP servers that can be added and changed at run time.
    #[must_use]
    pub(crate) fn build_complete(
        config: &Config,
        registry: Arc<ToolRegistry>,
        state: State,
        servers: Arc<Servers>,
        access: Access,
    ) -> Self {
        Assembly(config).app(registry, Some(state), Some(servers), access)
    }
}

/// Builds the parts of the state from a configuration.
pub struct Assembly<'c>(pub(super) &'c Config);

impl Assembly<'_> {
    fn app(
        &self,
        registry: Arc<ToolRegistry>,
        state: Option<State>,
        servers: Option<Arc<Servers>>,
        access: Access,
    ) -> App {
        let has_all_tools = servers.is_some();
        let process = Arc::new(Process::new(Telemetry::start(&self.0.telemetry)));
        process.set_peer_rules(&access.peers);
        let results = self.results(state.as_ref());
        let approvals = self.approvals(state.as_ref(), &process);
        let hooks = self.hooks(state.as_ref(), results.as_ref(), &process, &approvals);
        let credentials = credentials_of(servers.as_ref());
        let upstreams = Upstreams::new(
            &self.0.mcp_servers,
            self.0.mcp.clone(),
            Arc::clone(&registry),
            Listeners {
                events: Arc::clone(&process.events),
                connections: process.connections.clone(),
                telemetry: process.telemetry.clone(),
            },
            Pins::new(state.as_ref().map(State::store)),
            credentials.clone(),
        );
        process.metrics.tools.record_servers(upstreams.listings());
        let mcp = Arc::new(McpServerState::default());
        let models = Arc::new(Models::new(self.0, &credentials));
        let workers = Workers::new(
            Arc::clone(&registry),
            Arc::<McpServerState>::clone(&mcp),
            Arc::clone(&process.events),
            self.0.workers.clone(),
        );
        let wasm_tools = WasmTools::new(
            Arc::clone(&registry),
            Arc::<McpServerState>::clone(&mcp),
            Arc::clone(&process.events),
            &self.0.wasm_tools,
        );
        let checkpoints = self.checkpoints(state.as_ref());
        let (loaded_packs, tools) = self.tools_of(
            &LoadedPacks::default(),
            &models,
            state.as_ref().filter(|_| has_all_tools),
            &credentials,
            &checkpoints,
        );
        let registered = Registered::default().replace_tools(tools, &registry, None);
        self.set_up_builtins(&registry);
        mcp.offer_packs(&loaded_packs.offered);
        let executor = Executor::with_hooks(registry, self.0.executor_config(), hooks);
        App::of(Shared {
            executor,
            upstreams: Arc::new(upstreams),
            http: self.0.http.clone(),
            access,
            approvals,
            state,
            servers,
            results,
            mcp,
            models,
            tool_keys: ToolKeys::of(&self.0.builtins),
            unknown_tools: UnknownTools::of(self.0),
            workers,
            wasm_tools,
            registered,
            has_all_tools,
            checkpoints,
            loaded_packs,
            process,
            used: watch::Sender::new(()),
        })
    }

    /// Returns the packs and all tools of the configuration; without `state`, only the declared
    /// tools.
    pub(super) fn tools_of(
        &self,
        loaded_packs: &LoadedPacks,
        models: &Models,
        state: Option<&State>,
        credentials: &UserCredentials,
        checkpoints: &Arc<dyn CheckpointStore>,
    ) -> (LoadedPacks, Vec<Arc<dyn Tool>>) {
        let Some(state) = state else {
            return (
                loaded_packs.clone(),
                declared_tools::build(&self.0.declared, checkpoints),
            );
        };
        let mut tools = tools::configured(self.0, Some(state.store()), credentials);
        let (loaded_packs, of_packs) = loaded_packs.reload(self.0, models, state.store());
        tools.extend(of_packs);
        tools.extend(declared_tools::build(&self.0.declared, checkpoints));
        (loaded_packs, tools)
    }

    /// Applies the settings and aliases of the built-in tools in the registry.
    pub(super) fn set_up_builtins(&self, registry: &ToolRegistry) {
        let zone = self.0.builtins.time_zone.as_deref();
        if let Err(error) = tools::set_time_zone(registry, zone) {
            tracing::error!(%error, "Cannot set the time zone of the built-in tools");
        }
        if let Err(error) = pillion_builtins::set_aliases(registry) {
            tracing::error!(%error, "Cannot register the aliases of the built-in tools");
        }
    }

    pub(super) fn checkpoints(&self, state: Option<&State>) -> Arc<dyn CheckpointStore> {
        StepCheckpoints::over(state.map(State::store), self.0.approvals.expires_after)
    }

    pub(super) fn approvals(&self, state: Option<&State>, process: &Process) -> Approvals {
        let (pending, events) = (Arc::clone(&process.pending), Arc::clone(&process.events));
        Approvals::new(self.0, state.map(State::store), pending, events)
    }

    pub(super) fn results(&self, state: Option<&State>) -> Option<Arc<Results>> {
        state?.results(self.0).map(Arc::new)
    }

    /// Returns the executor's hooks: approvals, the call log, metrics, event listeners, telemetry
    /// and the store of offloaded results.
    pub(super) fn hooks(
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
            journal: state.map(|state| state.journal(self.0)),
            observer: Some(Arc::new(Both(metrics, events))),
            tracer: process.telemetry.clone().map(|telemetry| telemetry as _),
            result_store: results
                .map(|results| Arc::<Results>::clone(results) as Arc<dyn ResultStore>),
            ..ExecutorHooks::default()
        }
    }
}

/// Returns the credentials of users and providers; empty without `servers`.
pub(super) fn credentials_of(servers: Option<&Arc<Servers>>) -> UserCredentials {
    servers.map_or_else(UserCredentials::default, |servers| {
        servers.user_credentials().clone()
    })
}
