//! Runs calls from PHP with the engine's executor.

mod approval;
mod gate;
mod notices;
mod question;
mod run;

use std::sync::Arc;

use futures_util::future::join;
use pillion_core::executor::{Executor, ExecutorHooks};
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolResult};
use serde_json::json;

use crate::classes::tool_registry::Registry;
use crate::mcp::hooks::{self, Hooks};
use crate::mcp::{Attendant, Errand};
use crate::switchboard::{Serves, Switchboard, Work};
use crate::wait::wait_serving;
use crate::zend::{Failure, Object, is_nested, is_too_deep, must_stop, too_deep};
pub use notices::Begun;

/// How several calls run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One after the other.
    Sequential,
    /// Native and MCP tools concurrently; at the same time PHP tools one after the other.
    Parallel,
}

/// The PHP objects that take part in an execution.
pub struct Attendants<'a> {
    /// The registry of the tools.
    pub registry: &'a Registry,
    /// The registry object, which contains the PHP tools.
    pub object: Object<'a>,
    /// The hooks that the application has set on the executor.
    pub hooks: Option<Hooks<'a>>,
}

impl Attendants<'_> {
    /// Returns which hooks are set.
    pub fn serves(&self) -> Serves {
        let has = |name: &str| self.hooks.is_some_and(|hooks| hooks.get(name).is_some());
        Serves {
            approvals: has(hooks::APPROVE),
            gate: has(hooks::BEFORE),
            notices: has(hooks::LOGGER) || has(hooks::EVENTS),
        }
    }
}

/// Returns the hooks of an executor whose calls run through [`execute`]: approvals, the `before`
/// check and notices, all handled on the PHP thread.
pub fn hooks(switchboard: &Arc<Switchboard>) -> ExecutorHooks {
    ExecutorHooks {
        approver: Some(Arc::new(approval::PhpApprover::new(switchboard))),
        gate: Some(Arc::new(gate::PhpGate::new(switchboard))),
        observer: Some(Arc::new(notices::PhpObserver::new(switchboard))),
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
    attendants: &Attendants<'_>,
    executor: &Executor,
    calls: Vec<ToolCall>,
    mut context: CallContext,
    mode: Mode,
) -> Result<Vec<ToolResult>, Failure> {
    if is_too_deep() {
        return Ok(calls.into_iter().map(refused_as_too_deep).collect());
    }
    let registry = attendants.registry;
    let clients = registry.clients(attendants.object)?;
    let has_mcp = calls.iter().any(|call| registry.is_mcp(&call.name));
    registry.follow(&clients, has_mcp)?;
    let asked: Vec<Attendant<'_>> = (clients.iter().filter(|_| has_mcp))
        .map(|client| client.attend())
        .collect::<Result<_, _>>()?;
    let serves = attendants.serves();
    let places = calls.len();
    let (in_php, others): (Vec<_>, Vec<_>) = calls
        .into_iter()
        .enumerate()
        .partition(|(_, call)| mode == Mode::Sequential || registry.is_php(&call.name));
    // A PHP tool that makes calls holds its permit until those calls have finished.
    let executor = match is_nested() {
        true => executor.with_own_permits(),
        false => executor.clone(),
    };
    let begun = Begun::default();
    let ran = wait_serving(
        |jobs| {
            for (place, client) in asked.iter().enumerate() {
                let jobs = Arc::clone(&jobs);
                let errands = Arc::new(move |errand| jobs(Work::Mcp(place, errand)));
                client.open(errands, |_| ());
            }
            let open = registry.switchboard().open(jobs, serves, &mut context);
            Box::pin(async move {
                let (other_places, other_calls): (Vec<_>, Vec<_>) = others.into_iter().unzip();
                let mut context_in_php = context.clone();
                let in_php = async {
                    let mut results = Vec::with_capacity(in_php.len());
                    for (place, call) in in_php {
                        let _turn = open.line().turn(&mut context_in_php).await;
                        let result = executor.execute_one(call, &context_in_php).await;
                        results.push((place, result));
                    }
                    results
                };
                let others = executor.execute_parallel(other_calls, &context);
                let (in_php, others) = join(in_php, others).await;
                let others = other_places.into_iter().zip(others);
                in_php.into_iter().chain(others).collect::<Vec<_>>()
            })
        },
        |work| {
            serve(attendants, &begun, work, |place, errand| {
                asked
                    .get(place)
                    .map_or(Ok(()), |client| client.serve(errand))
            })
        },
    )
    .map_err(|failure| begun.tell_failure(attendants.hooks, failure))?;
    asked.into_iter().try_for_each(Attendant::settle)?;
    let mut ordered: Vec<Option<ToolResult>> = (0..places).map(|_| None).collect();
    for (place, result) in ran {
        ordered[place] = Some(result);
    }
    Ok(ordered.into_iter().flatten().collect())
}

/// Returns the result of a call that nests too deep. Listeners are not notified, because a listener
/// might make another call.
fn refused_as_too_deep(call: ToolCall) -> ToolResult {
    let mut result = ToolResult::failure(call.id, call.name, ErrorCode::InternalError, too_deep());
    result
        .metadata
        .insert("execution_time".to_owned(), json!(0.0));
    result
}

/// Serves a job of the engine on the PHP thread; `mcp` serves jobs of MCP clients.
///
/// # Errors
/// Failures that must end the wait.
pub fn serve(
    attendants: &Attendants<'_>,
    begun: &Begun,
    work: Work,
    mcp: impl FnOnce(usize, Errand) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match work {
        Work::Run(job) => job.serve(|asked| run::run(attendants.object, asked))?,
        Work::Approve(job) => job.serve(|asked| approval::ask(attendants.hooks, asked))?,
        Work::Enter(job) => job.serve(|asked| gate::ask(attendants.hooks, asked))?,
        Work::Mcp(place, errand) => mcp(place, errand)?,
        Work::Notice(notice) => {
            if let Some(hooks) = attendants.hooks {
                begun.pass_on(hooks, &notice)?;
                if must_stop() {
                    return Err(Failure::Pending);
                }
            }
        }
    }
    Ok(())
}
