//! Builds the [`Gateway`] that replaces another on a reload.

use std::sync::Arc;

use tokio::sync::watch;

use super::builder::Builder;
use super::unknown_tools::UnknownTools;
use super::{Gateway, Shared};
use crate::models::Models;
use crate::tool_keys::ToolKeys;
use pillion_config::Config;

/// What a reload applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadScope {
    /// The whole configuration.
    Everything,
    /// The configuration without its built-in tools, packs and declared tools, which stay.
    Servers,
}

impl Gateway {
    /// Returns the [`Gateway`] of a new configuration. The registry stays the same, except for
    /// tools of MCP servers and of the configuration that were removed or changed; the counters of
    /// limits and metrics continue. Running calls finish with the `Gateway` with which they began.
    pub async fn reload(&self, config: &Config, scope: ReloadScope) -> Self {
        let old = &*self.shared;
        let builder = Builder(config);
        let upstreams = old
            .upstreams
            .reload(&config.mcp_servers, config.mcp.clone())
            .await;
        old.process
            .metrics
            .tools
            .record_servers(upstreams.listings());
        old.process.detached.set_limits(builder.detached_limits());
        old.workers.reconfigure(&config.workers);
        old.wasm_tools.reconfigure(&config.wasm_tools);
        // A checkpoint store in memory must survive the reload.
        let checkpoints = match &old.state {
            Some(state) => builder.checkpoints(Some(state)),
            None => Arc::clone(&old.checkpoints),
        };
        let credentials = old.credentials.clone();
        let models = Arc::new(Models::new(config, &credentials));
        let (mut loaded_packs, mut registered) = (old.loaded_packs.clone(), old.registered.clone());
        if scope == ReloadScope::Everything {
            let state = old.state.as_ref().filter(|_| old.has_all_tools);
            let (registry, events) = (old.executor.registry(), &old.process.events);
            let tools;
            (loaded_packs, tools) = builder.tools_of(
                &old.loaded_packs,
                &models,
                state,
                &credentials,
                &checkpoints,
            );
            registered = old.registered.replace_tools(tools, registry, Some(events));
            builder.set_up_builtins(registry);
        }
        let results = builder.results(old.state.as_ref());
        let approvals = builder.approvals(old.state.as_ref(), &old.process);
        let hooks = builder.hooks(
            old.state.as_ref(),
            results.as_ref(),
            &old.process,
            &approvals,
        );
        Self::new(Shared {
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
            registered,
            has_all_tools: old.has_all_tools,
            checkpoints,
            loaded_packs,
            process: Arc::clone(&old.process),
            used: watch::Sender::new(()),
        })
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
}
