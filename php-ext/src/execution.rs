//! Runs tool calls of PHP code with the engine's executor.

mod callables;
mod notices;
mod php_thread;
mod run;
pub mod tool_executor;

use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use pillion_core::executor::Executor;
use pillion_core::job_channel::{HandledJobs, JobChannel, PeerCall};
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolResult};
use serde_json::json;

use crate::mcp::hooks::{self, Hooks};
use crate::mcp::{ServerJob, WaitingClient};
use crate::tools::registry::Registry;
use crate::wait::wait_serving;
use crate::zend::{Failure, Object, is_nested, is_too_deep, should_stop, too_deep};
pub use notices::StartedCalls;
pub use php_thread::{ExecutionJob, PhpThread};

/// How several calls run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
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
    pub object: Object<'a>,
    /// The hooks that the application has set on the executor.
    pub hooks: Option<Hooks<'a>>,
}

impl ExecutionParticipants<'_> {
    /// Returns the jobs that the application handles, according to the hooks that are set.
    pub fn handled_jobs(&self) -> HandledJobs {
        let has = |name: &str| self.hooks.is_some_and(|hooks| hooks.get(name).is_some());
        HandledJobs {
            approvals: has(hooks::APPROVE),
            gate: has(hooks::BEFORE),
            notifications: has(hooks::LOGGER) || has(hooks::EVENTS),
        }
    }
}

/// Runs calls and waits for their results, which are in the order of the calls.
///
/// There is one PHP thread, so PHP tools run one at a time. A PHP tool's timeout starts when its
/// turn comes, so that waiting for the thread does not count.
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
    mode: Mode,
) -> Result<Vec<ToolResult>, Failure> {
    if is_too_deep() {
        return Ok(calls.into_iter().map(too_deep_result).collect());
    }
    let registry = participants.registry;
    let clients = registry.clients(participants.object)?;
    let has_mcp = calls.iter().any(|call| registry.is_mcp(&call.name));
    registry.prepare_servers(&clients, has_mcp)?;
    let waiting_clients: Vec<WaitingClient<'_>> = (clients.iter().filter(|_| has_mcp))
        .map(|client| client.prepare_wait())
        .collect::<Result<_, _>>()?;
    let handled_jobs = participants.handled_jobs();
    let calls: Vec<_> = calls
        .into_iter()
        .map(|call| PeerCall {
            is_by_peer: mode == Mode::Sequential || registry.is_php(&call.name),
            call,
        })
        .collect();
    // A nested execution needs its own permits: the PHP tool that makes it holds a permit until its
    // calls have finished.
    let executor = if is_nested() {
        executor.with_separate_permits()
    } else {
        executor.clone()
    };
    let started_calls = StartedCalls::default();
    let mut ran = wait_serving(
        |jobs| {
            for (index, client) in waiting_clients.iter().enumerate() {
                let jobs = Arc::clone(&jobs);
                let server_jobs = Arc::new(move |job| jobs(ExecutionJob::Mcp(index, job)));
                client.open_call(server_jobs, |_| ());
            }
            let channel = JobChannel::new(PhpThread { jobs, handled_jobs });
            Box::pin(async move {
                let results = Mutex::new(Vec::with_capacity(calls.len()));
                let finished = |index: usize, result: ToolResult| {
                    let locked = results.lock();
                    locked
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((index, result));
                    ready(())
                };
                channel.run(&executor, calls, &context, finished).await;
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
    ran.sort_by_key(|(index, _)| *index);
    Ok(ran.into_iter().map(|(_, result)| result).collect())
}

/// Returns the failed result of a call that nests too deep. Listeners are not notified, because a
/// listener could make another call.
fn too_deep_result(call: ToolCall) -> ToolResult {
    let mut result = ToolResult::failure(call.id, call.name, ErrorCode::InternalError, too_deep());
    result
        .metadata
        .insert("execution_time".to_owned(), json!(0.0));
    result
}

/// Handles a job of the engine on the PHP thread; `mcp` handles the jobs of MCP clients.
///
/// # Errors
/// A failure that must end the wait.
pub fn serve(
    participants: &ExecutionParticipants<'_>,
    started_calls: &StartedCalls,
    job: ExecutionJob,
    mcp: impl FnOnce(usize, ServerJob) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match job {
        ExecutionJob::Run(job) => job.serve(|run| run::run(participants.object, run))?,
        ExecutionJob::Approve(job) => {
            job.serve(|request| callables::approve(participants.hooks, request))?;
        }
        ExecutionJob::Enter(job) => {
            job.serve(|call| callables::before(participants.hooks, call))?;
        }
        ExecutionJob::Mcp(index, job) => mcp(index, job)?,
        ExecutionJob::Notice(notice) => {
            if let Some(hooks) = participants.hooks {
                started_calls.forward(hooks, &notice)?;
                if should_stop() {
                    return Err(Failure::Pending);
                }
            }
        }
    }
    Ok(())
}
