//! Executors of PHP processes that have no PHP extension. A PHP process connects to the Unix
//! socket, sends its calls, and runs its own tools and callables when the sidecar requests it.
//! `docs/reference/executor-protocol.md` describes the protocol.
//!
//! An executor exists as long as its connection. Its tools are visible to no other client.

mod callbacks;
mod connection;
mod definitions;
mod execution;
mod executions;
mod message;
mod php_process;
mod tools;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pillion_core::executor::{Executor, ExecutorConfig, ExecutorHooks, OptionError};
use pillion_core::registry::ToolRegistry;
use serde::Deserialize;
use serde_json::Value;

use crate::current_app::CurrentApp;
use pillion_gateway::access::Peer;

/// The options of a `ToolExecutor` that are PHP callables, which stay in the PHP process.
const CALLABLES: [&str; 2] = ["approve", "before"];

/// The request that opens the connection of an executor.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(crate) struct ExecutorRequest {
    /// The options of the executor as the PHP class `ToolExecutor` takes them, without the
    /// callables.
    #[schema(value_type = Object)]
    options: Value,
}

/// The executor of one connection.
#[derive(Debug)]
pub(crate) struct PhpExecutor {
    executor: Executor,
    current_app: CurrentApp,
    peer: Peer,
    max_message_bytes: usize,
    /// The sizes of the definitions, by the names of the tools.
    definition_bytes: Mutex<HashMap<String, usize>>,
}

impl PhpExecutor {
    /// Creates the executor for the connection of `peer`.
    ///
    /// # Errors
    /// [`OptionError`] if an option is unknown or invalid.
    pub(crate) fn new(
        request: ExecutorRequest,
        current_app: CurrentApp,
        peer: Peer,
    ) -> Result<Self, OptionError> {
        let config = ExecutorConfig::from_options(request.options, &CALLABLES)?;
        if !config.cache.honor_servers {
            return Err(OptionError::Form {
                path: "enable_caching".to_owned(),
                reason: "the configuration of the sidecar controls the cache of results".to_owned(),
            });
        }
        let hooks = ExecutorHooks {
            approver: Some(Arc::new(callbacks::PhpApprover)),
            gate: Some(Arc::new(callbacks::PhpGate)),
            observer: Some(Arc::new(callbacks::PhpObserver)),
            ..ExecutorHooks::default()
        };
        let executor = Executor::with_hooks(Arc::new(ToolRegistry::new()), config, hooks);
        let max_message_bytes = current_app.app().workers().max_message_bytes();
        Ok(Self {
            executor,
            current_app,
            peer,
            max_message_bytes,
            definition_bytes: Mutex::default(),
        })
    }
}

#[cfg(test)]
mod tests;
