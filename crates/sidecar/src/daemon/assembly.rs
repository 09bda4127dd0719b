use std::sync::Arc;

use super::DaemonError;
use crate::app::App;
use crate::current_app::CurrentApp;
use crate::limits::PredecessorCalls;
use pillion_config::Config;
use pillion_gateway::access::Access;
use pillion_gateway::state::State;
use pillion_gateway::tools;
use pillion_management::servers::Servers;

/// The parts of the daemon that handle requests.
pub struct Assembly {
    /// The holder of the current [`App`], which handles requests.
    pub current_app: CurrentApp,
    pub(crate) servers: Arc<Servers>,
    pub(super) predecessor_calls: PredecessorCalls,
}

impl Assembly {
    /// Builds the parts from the configuration and the store. Calls that were recorded before the
    /// start count toward the rate limits.
    ///
    /// # Errors
    /// The built-in tools cannot be registered, or the servers of the store, the vault or the call
    /// log cannot be read.
    pub async fn build(
        config: &Config,
        state: &State,
        access: Access,
    ) -> Result<Self, DaemonError> {
        let registry = tools::registry()?;
        let servers = Servers::open(state.store(), config)
            .await
            .map_err(|error| DaemonError::Servers(Box::new(error)))?;
        let merged_config = Box::pin(servers.merge_stored_servers(config)).await;
        let app = App::assemble(
            &merged_config,
            Arc::clone(&registry),
            Some(state.clone()),
            Some(Arc::clone(&servers)),
            access,
        );
        tools::log_count(&registry);
        let current_app = CurrentApp::new(app);
        servers.attach(current_app.application());
        current_app.app().wasm_tools().start().await;
        let predecessor_calls = PredecessorCalls::begin(state.clone(), current_app.clone()).await?;
        Ok(Self {
            current_app,
            servers,
            predecessor_calls,
        })
    }
}
