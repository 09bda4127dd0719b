//! Executors of PHP processes that have no PHP extension. A PHP process connects to the Unix
//! socket, sends its calls, and runs its own tools and callables when the sidecar requests it.
//! `docs/reference/executor-protocol.md` describes the protocol.
//!
//! An executor exists as long as its connection. Its tools are visible to no other client.

mod connection;
mod definitions;
mod execution;
mod executions;
mod message;
mod php_process;

use std::collections::HashMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{FromRequest, Request, State};
use axum::response::Response;
use parking_lot::Mutex;
use pillion_core::executor::{Executor, ExecutorConfig, OptionError};
use pillion_core::job_channel;
use pillion_core::registry::ToolRegistry;
use pillion_wire::route;
use serde::Deserialize;
use serde_json::Value;

use super::extract::ObjectBody;
use super::upgrade::{Upgrade, UpgradeError};
use crate::app::App;
use crate::current_app::CurrentApp;
use execution::Execution;
use pillion_gateway::access::Peer;
use pillion_gateway::workers;
use pillion_management::error::Result;

/// The protocol of an executor's connection after the upgrade.
const PROTOCOL: &str = "pillion-executor";

/// The options of a `ToolExecutor` that are PHP callables, which stay in the PHP process.
const CALLABLES: [&str; 2] = ["approve", "before"];

/// The request that opens the connection of an executor.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(super) struct ExecutorRequest {
    /// The options of the executor as the PHP class `ToolExecutor` takes them, without the
    /// callables.
    #[schema(value_type = Object)]
    options: Value,
}

/// The executor of one connection.
#[derive(Debug)]
struct PhpExecutor {
    executor: Executor,
    current_app: CurrentApp,
    peer: Peer,
    max_message_bytes: usize,
    /// The size of each tool's definition, in bytes, by the name of the tool.
    definition_bytes: Mutex<HashMap<String, usize>>,
}

impl PhpExecutor {
    /// Creates the executor for the connection of `peer`.
    ///
    /// # Errors
    /// [`OptionError`] if an option is unknown or invalid.
    fn new(
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
        let hooks = job_channel::hooks::<Execution>();
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

/// Open the executor of a PHP process.
///
/// The request must come over the Unix socket, with the headers `Connection: Upgrade` and `Upgrade:
/// pillion-executor`. After the response, the connection carries newline-delimited JSON-RPC: the
/// calls of the PHP process, and the sidecar's requests to run PHP tools.
#[utoipa::path(
    post,
    path = route::OPEN_EXECUTOR.path,
    request_body(content = ExecutorRequest, content_type = "application/json"),
    responses(
        (status = 101, description = "The connection carries the JSON-RPC messages of the executor"),
        (status = 400, description = "An option is unknown or invalid"),
        (status = 403, description = "The request did not come over the Unix socket"),
        (status = 426, description = "The header `Upgrade: pillion-executor` is missing"),
        (status = 503, description = "Too many clients have upgraded their connections, or the sidecar is shutting down"),
    )
)]
pub(super) async fn open(
    State(app): State<App>,
    peer: Option<Extension<Peer>>,
    Extension(current_app): Extension<CurrentApp>,
    mut request: Request,
) -> Result<Response> {
    let Some(Extension(peer @ Peer::Process { pid, .. })) = peer else {
        let action = "open an executor";
        return Err(UpgradeError::NotUnixSocket { action }.into());
    };
    let upgrade = Upgrade::begin_client(&app, &mut request, PROTOCOL)?;
    let ObjectBody(request) = ObjectBody::<ExecutorRequest>::from_request(request, &app).await?;
    let executor = PhpExecutor::new(request, current_app, peer)?;
    let process = app.process();
    let shutdown = process.wait_for_draining();
    let process_end = workers::wait_for_process_end(pid);
    let admission = process.watch_admission(Some(peer));
    let response = upgrade.response();
    process.client_tasks.spawn(async move {
        if let Some(stream) = upgrade.stream().await {
            executor
                .serve(stream, shutdown, process_end, admission)
                .await;
        }
    });
    Ok(response)
}

#[cfg(test)]
mod tests;
