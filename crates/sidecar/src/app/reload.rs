//! Replaces one [`App`] by another on a reload.

use std::sync::Arc;

use tokio::sync::watch;

use super::assembly::{Assembly, credentials_of};
use super::unknown_tools::UnknownTools;
use super::{App, Shared};
use pillion_config::Config;
use pillion_gateway::access::Access;
use pillion_gateway::models::Models;
use pillion_gateway::tool_keys::ToolKeys;

impl App {
    /// Returns the [`App`] of a new configuration. The registry stays the same, except for tools of
    /// MCP servers and of the configuration that were removed or changed; the counters of limits
    /// and metrics continue. Running calls finish with the `App` with which they began.
    pub async fn reload(&self, config: &Config, access: Access) -> Self {
        self.reload_with(config, Some(access)).await
    }

    /// Like [`reload`](Self::reload), if only the MCP servers have changed.
    pub(crate) async fn reload_servers(&self, config: &Config) -> Self {
        self.reload_with(config, None).await
    }

    async fn reload_with(&self, config: &Config, reloaded: Option<Access>) -> Self {
        let old = &*self.shared;
        let assembly = Assembly(config);
        let upstreams = old
            .upstreams
            .reload(&config.mcp_servers, config.mcp.clone())
            .await;
        old.process
            .metrics
            .tools
            .record_servers(upstreams.listings());
        old.mcp.reconfigure();
        old.workers.reconfigure(&config.workers);
        old.wasm_tools.reconfigure(&config.wasm_tools);
        // A checkpoint store in memory must survive the reload.
        let checkpoints = match &old.state {
            Some(state) => assembly.checkpoints(Some(state)),
            None => Arc::clone(&old.checkpoints),
        };
        let credentials = credentials_of(old.servers.as_ref());
        let models = Arc::new(Models::new(config, &credentials));
        let (mut loaded_packs, mut registered) = (old.loaded_packs.clone(), old.registered.clone());
        if reloaded.is_some() {
            let state = old.state.as_ref().filter(|_| old.has_all_tools);
            let (registry, events) = (old.executor.registry(), &old.process.events);
            let tools;
            (loaded_packs, tools) = assembly.tools_of(
                &old.loaded_packs,
                &models,
                state,
                &credentials,
                &checkpoints,
            );
            registered = old.registered.replace_tools(tools, registry, Some(events));
            assembly.set_up_builtins(registry);
        }
        let access = reloaded.unwrap_or_else(|| old.access.clone());
        let results = assembly.results(old.state.as_ref());
        let approvals = assembly.approvals(old.state.as_ref(), &old.process);
        let hooks = assembly.hooks(
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
            servers: old.servers.clone(),
            results,
            mcp: Arc::clone(&old.mcp),
            models,
            tool_keys: ToolKeys::of(&config.builtins),
            unknown_tools: UnknownTools::of(config),
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

    /// Releases this [`App`] after `successor` has replaced it. When the last request has finished
    /// with this `App`, ends the sessions with those MCP servers that `successor` does not have.
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
