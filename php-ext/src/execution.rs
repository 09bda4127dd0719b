//! Runs tool calls of PHP code with the engine's executor.

mod callables;
mod php_thread;
mod run;
mod started_calls;
pub mod tool_executor;

use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use pillion_core::executor::Executor;
use pillion_core::job_channel::{HandledJobs, JobChannel, PeerCall};
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolResult};
use serde_json::json;

use crate::mcp::hooks::{self, Hooks};
use crate::mcp::{ServerJob, WaitingClient};
use crate::runtime::lock;
use crate::tools::registry::Registry;
use crate::wait::wait_serving;
use crate::zend::{Failure, Object, Result, is_nested, is_too_deep, should_stop, too_deep_message};
pub use php_thread::{ExecutionJob, PhpThread};
pub use started_calls::StartedCalls;

/// Whether several calls run concurrently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionMode {
    /// The calls run one after the other.
    Sequential,
    /// Native and MCP tools run concurrently; at the same time, PHP tools run one after the other.
    Parallel,
}

/// The PHP objects that take part in an execution.
pub struct ExecutionParticipants<'a> {
    /// The registry that contains the called tools.
    pub registry: &'a Registry,
    /// The registry object, which contains the PHP tools.
    pub registry_object: Object<'a>,
    /// The logger, the event dispatcher and the callables that the application has set on the
    /// executor.
    pub hooks: Option<Hooks<'a>>,
}

impl ExecutionParticipants<'_> {
    /// Returns the kinds of jobs that the application handles, which depend on the hooks that the
    /// application has set on the executor.
    pub fn handled_jobs(&self) -> HandledJobs {
        let has_hook = |name: &str| self.hooks.is_some_and(|hooks| hooks.get(name).is_some());
        HandledJobs {
            approvals: has_hook(hooks::APPROVE_CALLABLE),
            gate: has_hook(hooks::BEFORE_CALLABLE),
            notifications: has_hook(hooks::LOGGER) || has_hook(hooks::EVENT_DISPATCHER),
        }
    }
}

/// Runs calls and waits for their results, which are in the order of the calls.
///
/// There is one PHP thread, so PHP tools run one at a time. The timeout of a PHP tool starts when
/// the tool gets the thread, so that waiting for the thread does not count.
///
/// # Errors
/// A failure that ends the whole execution: an exception from a signal handler, a listener or the
/// logger, `exit()` in a tool, or the end of the request. A failed tool has a failed result
/// instead.
pub fn execute(
    participants: &ExecutionParticipants<'_>,
    executor: &Executor,
    calls: Vec<ToolCall>,
    context: CallContext,
    mode: ExecutionMode,
) -> Result<Vec<ToolResult>> {
    if is_too_deep() {
        return Ok(calls.into_iter().map(to_too_deep_result).collect());
    }
    let registry = participants.registry;
    let clients = registry.clients(participants.registry_object)?;
    let has_mcp_calls = calls.iter().any(|call| registry.is_mcp_tool(&call.name));
    registry.prepare_servers(&clients, has_mcp_calls)?;
    let waiting_clients: Vec<WaitingClient<'_>> = (clients.iter().filter(|_| has_mcp_calls))
        .map(|client| client.prepare_wait())
        .collect::<Result<_, _>>()?;
    let handled_jobs = participants.handled_jobs();
    let peer_calls: Vec<_> = calls
        .into_iter()
        .map(|call| PeerCall {
            is_by_peer: mode == ExecutionMode::Sequential || registry.is_php_tool(&call.name),
            call,
        })
        .collect();
    // A nested execution gets separate concurrency permits. With shared permits, it could wait
    // forever for the permit of the PHP tool that started it.
    let call_executor = if is_nested() {
        executor.with_separate_permits()
    } else {
        executor.clone()
    };
    let started_calls = StartedCalls::default();
    let mut results = wait_serving(
        |job_sender| {
            for (index, client) in waiting_clients.iter().enumerate() {
                let job_sender = Arc::clone(&job_sender);
                let server_job_sender =
                    Arc::new(move |job| job_sender(ExecutionJob::Mcp(index, job)));
                client.open_call(server_job_sender, |_| ());
            }
            let channel = JobChannel::new(PhpThread {
                job_sender,
                handled_jobs,
            });
            Box::pin(async move {
                let results = Mutex::new(Vec::with_capacity(peer_calls.len()));
                let on_finished = |index: usize, result: ToolResult| {
                    lock(&results).push((index, result));
                    ready(())
                };
                channel
                    .run(&call_executor, peer_calls, &context, on_finished)
                    .await;
                results.into_inner().unwrap_or_else(PoisonError::into_inner)
            })
        },
        |job| {
            serve(participants, &started_calls, job, |index, job| {
                waiting_clients
                    .get(index)
                    .map_or(Ok(()), |client| client.serve(job))
            })
        },
    )
    .map_err(|failure| started_calls.dispatch_failed(participants.hooks, failure))?;
    waiting_clients
        .into_iter()
        .try_for_each(WaitingClient::finish)?;
    results.sort_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// Returns the failed result of a call that exceeds the nesting limit. Listeners are not notified,
/// because a listener could make another nested call.
fn to_too_deep_result(call: ToolCall) -> ToolResult {
    let code = ErrorCode::InternalError;
    let mut result = ToolResult::failure(call.id, call.name, code, too_deep_message());
    result
        .metadata
        .insert("execution_time".to_owned(), json!(0.0));
    result
}

/// Handles a job of the engine on the PHP thread; `serve_mcp` handles the jobs of MCP clients.
///
/// # Errors
/// A failure that must end the wait: an exception from a listener or from a callback of an MCP
/// client, a bail-out or `exit()`.
pub fn serve(
    participants: &ExecutionParticipants<'_>,
    started_calls: &StartedCalls,
    job: ExecutionJob,
    serve_mcp: impl FnOnce(usize, ServerJob) -> Result<()>,
) -> Result<()> {
    match job {
        ExecutionJob::RunTool(job) => {
            job.serve(|run| run::run(participants.registry_object, run))?;
        }
        ExecutionJob::CallApprove(job) => {
            job.serve(|request| callables::call_approve(participants.hooks, request))?;
        }
        ExecutionJob::CallBefore(job) => {
            job.serve(|call| callables::call_before(participants.hooks, call))?;
        }
        ExecutionJob::Mcp(index, job) => serve_mcp(index, job)?,
        ExecutionJob::NotifyApplication(notification) => {
            if let Some(hooks) = participants.hooks {
                started_calls.forward(hooks, &notification)?;
                if should_stop() {
                    return Err(Failure::Pending);
                }
            }
        }
    }
    Ok(())
}
