//! Builds the state of a sidecar from its configuration.

use std::sync::Arc;

use pillion_core::compose::CheckpointStore;
use pillion_core::executor::{Executor, ExecutorHooks, Observer};
use pillion_core::registry::ToolRegistry;
use pillion_core::tool::Tool;
use tokio::sync::watch;

use super::unknown_tools::UnknownTools;
use super::{Gateway, Shared};
use crate::accounts::{AccountLimits, REQUEST_VALUE_LIMITS, Usage};
use crate::approvals::Approvals;
use crate::credentials::UserCredentials;
use crate::declared_tools::{self, RegisteredTools, StepCheckpoints};
use crate::events::{ObserverPair, ToolListener};
use crate::models::Models;
use crate::packs::LoadedPacks;
use crate::pins::Pins;
use crate::process::Process;
use crate::results::Results;
use crate::state::State;
use crate::telemetry::Telemetry;
use crate::tool_keys::ToolKeys;
use crate::tools;
use crate::upstream::{Listeners, Upstreams};
use crate::wasm_tools::WasmTools;
use crate::workers::Workers;
use pillion_config::Config;

/// The parts from which a [`Gateway`] is built, in addition to the configuration.
pub struct GatewayParts {
    /// The registry, with the built-in tools.
    pub registry: Arc<ToolRegistry>,
    /// The data that outlives the process. Without it, no call is recorded.
    pub state: Option<State>,
    /// The credentials of users and providers.
    pub credentials: UserCredentials,
    /// The listener that is notified when tools of workers or WebAssembly components change.
    pub tool_listener: Arc<dyn ToolListener>,
    /// Whether the optional built-in tools and the packs of the configuration are registered.
    pub has_all_tools: bool,
}

/// The parts of the configuration that a reload applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadScope {
    /// The whole configuration.
    WholeConfig,
    /// Everything except built-in tools, packs and declared tools, which are not changed.
    WithoutTools,
}

/// The limit of detached requests of all principals together, as a multiple of one principal's
/// limit.
const TOTAL_LIMIT_FACTOR: usize = 4;

/// Builds the parts of a gateway from a configuration.
pub(super) struct GatewayBuilder<'c>(pub(super) &'c Config);

impl GatewayBuilder<'_> {
    /// Sets the limits that the configuration may change while requests run.
    fn set_limits(&self, process: &Process) {
        process.detached_requests.set_limits(self.detached_limits());
        let max_waiting = self.0.approvals.max_waiting.get();
        process.pending_decisions.set_max_waiting(max_waiting);
    }

    /// Returns the limits of requests that continue without their clients.
    fn detached_limits(&self) -> AccountLimits {
        let http = &self.0.http;
        let bytes = u64::try_from(http.max_detached_bytes.get()).unwrap_or(u64::MAX);
        let usage = |factor: usize| Usage {
            count: http.max_detached.get().saturating_mul(factor),
            bytes: bytes.saturating_mul(factor as u64),
        };
        let (principal, total) = (usage(1), usage(TOTAL_LIMIT_FACTOR));
        AccountLimits { principal, total }
    }

    /// Builds a gateway. Performs no I/O: the tools of MCP servers are listed on first use.
    pub(super) fn build(&self, parts: GatewayParts) -> Gateway {
        let GatewayParts {
            registry,
            state,
            credentials,
            tool_listener,
            has_all_tools,
        } = parts;
        let process = Arc::new(Process::new(Telemetry::start(&self.0.telemetry)));
        self.set_limits(&process);
        process.request_values.set_limits(REQUEST_VALUE_LIMITS);
        let results = self.results(state.as_ref());
        let approvals = self.approvals(state.as_ref(), &process);
        let hooks = self.hooks(state.as_ref(), results.as_ref(), &process, &approvals);
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
        let models = Arc::new(Models::new(self.0, &credentials));
        let workers = Workers::new(
            Arc::clone(&registry),
            Arc::clone(&tool_listener),
            Arc::clone(&process.events),
            self.0.workers.clone(),
        );
        let wasm_tools = WasmTools::new(
            Arc::clone(&registry),
            tool_listener,
            Arc::clone(&process.events),
            &self.0.wasm_tools,
        );
        let checkpoints = self.checkpoints(state.as_ref());
        let (loaded_packs, tools) = self.configured_tools(
            &LoadedPacks::default(),
            &models,
            state.as_ref().filter(|_| has_all_tools),
            &credentials,
            &checkpoints,
        );
        let registered_tools = RegisteredTools::default().replace_tools(tools, &registry, None);
        self.set_up_builtins(&registry);
        let executor = Executor::with_hooks(registry, self.0.executor_config(), hooks);
        Gateway::new(Shared {
            executor,
            upstreams: Arc::new(upstreams),
            approvals,
            state,
            credentials,
            results,
            models,
            tool_keys: ToolKeys::new(&self.0.builtins),
            unknown_tools: Arc::new(UnknownTools::new(self.0)),
            workers,
            wasm_tools,
            registered_tools,
            has_all_tools,
            checkpoints,
            loaded_packs,
            process,
            drop_signal: watch::Sender::new(()),
        })
    }

    /// Builds the gateway that replaces the gateway with the parts `old`.
    pub(super) async fn reload(&self, old: &Shared, scope: ReloadScope) -> Gateway {
        let config = self.0;
        let section = config.mcp.clone();
        let upstreams = old.upstreams.reload(&config.mcp_servers, section).await;
        let process = &old.process;
        process.metrics.tools.record_servers(upstreams.listings());
        self.set_limits(process);
        old.workers.reconfigure(&config.workers);
        old.wasm_tools.reconfigure(&config.wasm_tools);
        // Without a store, the previous gateway's checkpoint store is reused, because the
        // checkpoints in memory must survive the reload.
        let checkpoints = match &old.state {
            Some(state) => self.checkpoints(Some(state)),
            None => Arc::clone(&old.checkpoints),
        };
        let credentials = old.credentials.clone();
        let models = Arc::new(Models::new(config, &credentials));
        let mut loaded_packs = old.loaded_packs.clone();
        let mut registered_tools = old.registered_tools.clone();
        if scope == ReloadScope::WholeConfig {
            let state = old.state.as_ref().filter(|_| old.has_all_tools);
            let (registry, events) = (old.executor.registry(), &process.events);
            let tools;
            (loaded_packs, tools) = self.configured_tools(
                &old.loaded_packs,
                &models,
                state,
                &credentials,
                &checkpoints,
            );
            registered_tools = registered_tools.replace_tools(tools, registry, Some(events));
            self.set_up_builtins(registry);
        }
        let results = self.results(old.state.as_ref());
        let approvals = self.approvals(old.state.as_ref(), process);
        let hooks = self.hooks(old.state.as_ref(), results.as_ref(), process, &approvals);
        Gateway::new(Shared {
            executor: old.executor.reconfigured(config.executor_config(), hooks),
            upstreams,
            approvals,
            state: old.state.clone(),
            credentials,
            results,
            models,
            tool_keys: ToolKeys::new(&config.builtins),
            unknown_tools: Arc::new(UnknownTools::new(config)),
            workers: Arc::clone(&old.workers),
            wasm_tools: Arc::clone(&old.wasm_tools),
            registered_tools,
            has_all_tools: old.has_all_tools,
            checkpoints,
            loaded_packs,
            process: Arc::clone(process),
            drop_signal: watch::Sender::new(()),
        })
    }

    /// Returns the packs and all tools of the configuration. Without `state`, returns
    /// `loaded_packs` unchanged, and only the declared tools.
    fn configured_tools(
        &self,
        loaded_packs: &LoadedPacks,
        models: &Models,
        state: Option<&State>,
        credentials: &UserCredentials,
        checkpoints: &Arc<dyn CheckpointStore>,
    ) -> (LoadedPacks, Vec<Arc<dyn Tool>>) {
        let declared_tools = declared_tools::build(&self.0.declared, checkpoints);
        let Some(state) = state else {
            return (loaded_packs.clone(), declared_tools);
        };
        let mut tools = tools::build_configured(self.0, Some(state.store()), credentials);
        let (loaded_packs, pack_tools) = loaded_packs.reload(self.0, models, state.store());
        tools.extend(pack_tools);
        tools.extend(declared_tools);
        (loaded_packs, tools)
    }

    /// Applies the settings and aliases of the built-in tools in the registry.
    fn set_up_builtins(&self, registry: &ToolRegistry) {
        let time_zone = self.0.builtins.time_zone.as_deref();
        if let Err(error) = tools::set_time_zone(registry, time_zone) {
            tracing::error!(%error, "Cannot set the time zone of the built-in tools");
        }
        if let Err(error) = pillion_builtins::set_aliases(registry) {
            tracing::error!(%error, "Cannot register the aliases of the built-in tools");
        }
    }

    fn checkpoints(&self, state: Option<&State>) -> Arc<dyn CheckpointStore> {
        StepCheckpoints::for_store(state.map(State::store), self.0.approvals.expires_after)
    }

    fn approvals(&self, state: Option<&State>, process: &Process) -> Approvals {
        let decisions = Arc::clone(&process.pending_decisions);
        let events = Arc::clone(&process.events);
        Approvals::new(self.0, state.map(State::store), decisions, events)
    }

    fn results(&self, state: Option<&State>) -> Option<Arc<Results>> {
        state?.results(self.0).map(Arc::new)
    }

    /// Returns the executor's hooks: approvals, the call log, metrics, event listeners, telemetry
    /// and the store of offloaded results.
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
            journal: state.map(|state| state.journal(self.0, process.call_tasks.clone())),
            observer: Some(Arc::new(ObserverPair(metrics, events))),
            tracer: process.telemetry.clone().map(|telemetry| telemetry as _),
            result_store: results.map(|results| Arc::<Results>::clone(results) as _),
            ..ExecutorHooks::default()
        }
    }
}
