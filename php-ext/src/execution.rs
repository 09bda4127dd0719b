//! Runs calls from PHP with the engine's executor.

mod approval;
mod callback;
mod gate;
mod notices;
mod run;

use std::sync::Arc;

use futures_util::future::join;
use pillion_core::executor::{Executor, ExecutorHooks};
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolResult};
use serde_json::json;

use crate::classes::tool_registry::Registry;
use crate::execution_registry::{ExecutionJob, ExecutionRegistry, HandledJobs};
use crate::mcp::hooks::{self, Hooks};
use crate::mcp::{ServerJob, WaitingClient};
use crate::wait::wait_serving;
use crate::zend::{Failure, Object, is_nested, is_too_deep, should_stop, too_deep};
pub use notices::StartedCalls;

/// How several calls run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One after the other.
    Sequential,
    /// Native and MCP tools concurrently; at the same time PHP tools one after the other.
    Parallel,
}

/// The PHP objects that take part in an execution.
pub struct ExecutionParticipants<'a> {
    /// The registry of the tools.
    pub registry: &'a Registry,
    /// The registry object, which contains the PHP tools.
    pub object: Object<'a>,
    /// The hooks that the application has set on the executor.
    pub hooks: Option<Hooks<'a>>,
}

impl ExecutionParticipants<'_> {
    /// Returns which hooks are set.
    pub fn handled_jobs(&self) -> HandledJobs {
        let has = |name: &str| self.hooks.is_some_and(|hooks| hooks.get(name).is_some());
        HandledJobs {
            approvals: has(hooks::APPROVE),
            gate: has(hooks::BEFORE),
            notices: has(hooks::LOGGER) || has(hooks::EVENTS),
        }
    }
}

/// Returns the hooks of an executor whose calls run through [`execute`]: approvals, the `before`
/// check and notices, all handled on the PHP thread.
pub fn hooks(executions: &Arc<ExecutionRegistry>) -> ExecutorHooks {
    ExecutorHooks {
        approver: Some(Arc::new(approval::PhpApprover::new(executions))),
        gate: Some(Arc::new(gate::PhpGate::new(executions))),
        observer: Some(Arc::new(notices::PhpObserver::new(executions))),
        ..ExecutorHooks::default()
    }
}

/// Runs calls and waits for their results, which are in the order of the calls.
///
/// There is one PHP thread, so PHP tools run one at a time. A tool's timeout starts when its turn
/// comes, so that waiting for the thread does not count.
///
/// # Errors
/// Failures that end the whole execution: an exception from a signal handler, a listener or the
/// logger, `exit()` in a tool, or the end of the request. A failed tool has a failed result
/// instead.
pub fn execute(
    participants: &ExecutionParticipants<'_>,
    executor: &Executor,
    calls: Vec<ToolCall>,
    mut context: CallContext,
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
    let count = calls.len();
    let (in_php, others): (Vec<_>, Vec<_>) = calls
        .into_iter()
        .enumerate()
        .partition(|(_, call)| mode == Mode::Sequential || registry.is_php(&call.name));
    // A PHP tool that makes calls holds its permit until those calls have finished.
    let executor = match is_nested() {
        true => executor.with_separate_permits(),
        false => executor.clone(),
    };
    let started_calls = StartedCalls::default();
    let ran = wait_serving(
        |jobs| {
            for (index, client) in waiting_clients.iter().enumerate() {
                let jobs = Arc::clone(&jobs);
                let server_jobs = Arc::new(move |job| jobs(ExecutionJob::Mcp(index, job)));
                client.open_call(server_jobs, |_| ());
            }
            let execution = registry
                .executions()
                .register(jobs, handled_jobs, &mut context);
            Box::pin(async move {
                let (other_indexes, other_calls): (Vec<_>, Vec<_>) = others.into_iter().unzip();
                let mut context_in_php = context.clone();
                let in_php = async {
                    let mut results = Vec::with_capacity(in_php.len());
                    for (index, call) in in_php {
                        let _turn = execution.handle().acquire_turn(&mut context_in_php).await;
                        let result = executor.execute_one(call, &context_in_php).await;
                        results.push((index, result));
                    }
                    results
                };
                let others = executor.execute_parallel(other_calls, &context);
                let (in_php, others) = join(in_php, others).await;
                let others = other_indexes.into_iter().zip(others);
                in_php.into_iter().chain(others).collect::<Vec<_>>()
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
    let mut ordered: Vec<Option<ToolResult>> = (0..count).map(|_| None).collect();
    for (index, result) in ran {
        ordered[index] = Some(result);
    }
    Ok(ordered.into_iter().flatten().collect())
}

/// Returns the result of a call that nests too deep. Listeners are not notified, because a listener
/// might make another call.
fn too_deep_result(call: ToolCall) -> ToolResult {
    let mut result = ToolResult::failure(call.id, call.name, ErrorCode::InternalError, too_deep());
    result
        .metadata
        .insert("execution_time".to_owned(), json!(0.0));
    result
}

/// Handles a job of the engine on the PHP thread; `mcp` handles jobs of MCP clients.
///
/// # Errors
/// Failures that must end the wait.
pub fn serve(
    participants: &ExecutionParticipants<'_>,
    started_calls: &StartedCalls,
    job: ExecutionJob,
    mcp: impl FnOnce(usize, ServerJob) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match job {
        ExecutionJob::Run(job) => job.serve(|run| run::run(participants.object, run))?,
        ExecutionJob::Approve(job) => {
            job.serve(|request| approval::ask(participants.hooks, request))?;
        }
        ExecutionJob::Enter(job) => job.serve(|call| gate::ask(participants.hooks, call))?,
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
