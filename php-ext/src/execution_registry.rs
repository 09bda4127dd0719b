//! Routes jobs that only PHP can do to the PHP thread that waits for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pillion_core::executor::{ApprovalRequest, Decision, ReadyCall};
use pillion_core::tool::{CallContext, ErrorCode, JsonObject, ToolFailure, ToolOutput};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::mcp::ServerJob;
use crate::wait::{Job, JobSender};

/// The key of the call context that holds the number of an execution.
const EXECUTION_KEY: &str = "php_execution";
/// The key of the call context that marks that the call holds the turn of its execution.
const HOLDS_TURN_KEY: &str = "php_turn";

/// The keys that an execution adds to the context of its calls. They are internal.
pub const KEYS: [&str; 2] = [EXECUTION_KEY, HOLDS_TURN_KEY];

/// A job that the engine passes to the PHP thread.
pub enum ExecutionJob {
    /// Run a tool in PHP.
    Run(Job<ToolRun, Result<ToolOutput, ToolFailure>>),
    /// Call the `approve` callable for a call.
    Approve(Job<Box<ApprovalRequest>, Result<Decision, ToolFailure>>),
    /// Call the `before` callable for a call.
    Enter(Job<Box<ReadyCall>, Result<Option<ToolOutput>, ToolFailure>>),
    /// Notify the application about a call.
    Notice(CallNotification),
    /// Handle a job of an MCP client's server. The number is the index of the client among the
    /// participants.
    Mcp(usize, ServerJob),
}

/// The start or the end of a call. It contains no arguments and no result.
#[derive(Clone)]
pub struct CallNotification {
    /// The name that was called.
    pub tool: String,
    /// The id of the call.
    pub call_id: String,
    /// The MCP server that the tool belongs to.
    pub server: Option<String>,
    /// The reason if the call failed, and its duration.
    pub ended: Option<(Option<ErrorCode>, Duration)>,
}

/// The kinds of jobs that an application handles.
#[derive(Debug, Clone, Copy, Default)]
pub struct HandledJobs {
    /// The application decides on approvals.
    pub approvals: bool,
    /// The application checks calls before they run.
    pub gate: bool,
    /// The application receives notices about calls.
    pub notices: bool,
}

/// A run of a tool in PHP.
pub struct ToolRun {
    /// The tool's own name.
    pub tool: String,
    /// [`PhpTool::number`](crate::php_tool::PhpTool::number).
    pub number: u64,
    /// The validated arguments.
    pub arguments: JsonObject,
    /// The id of the call.
    pub call_id: String,
}

/// A registry of the PHP threads that wait for executions.
///
/// An execution is registered for its duration. Its number is part of the call context, so that a
/// tool finds the thread that waits for exactly this execution, even if one execution runs inside a
/// tool of another.
#[derive(Default)]
pub struct ExecutionRegistry {
    next: AtomicU64,
    executions: Mutex<HashMap<u64, ExecutionHandle>>,
}

/// A running execution: the channel to the PHP thread that waits for it.
#[derive(Clone)]
pub struct ExecutionHandle {
    jobs: JobSender<ExecutionJob>,
    handled_jobs: HandledJobs,
    /// A call that holds the turn can expect the thread to be free, so that the timeout of a tool
    /// does not elapse while the thread asks the user about another call.
    turn: Arc<AsyncMutex<()>>,
}

impl ExecutionRegistry {
    /// Registers an execution and stores its number in `context`. Dropping the guard removes the
    /// execution. `handled_jobs` specifies which kinds of [`ExecutionJob`] the execution handles in
    /// addition to runs.
    pub fn register(
        self: &Arc<Self>,
        jobs: JobSender<ExecutionJob>,
        handled_jobs: HandledJobs,
        context: &mut CallContext,
    ) -> ExecutionGuard {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let handle = ExecutionHandle {
            jobs,
            handled_jobs,
            turn: Arc::default(),
        };
        self.lock().insert(number, handle.clone());
        context
            .extra
            .insert(EXECUTION_KEY.to_owned(), number.into());
        context.extra.shift_remove(HOLDS_TURN_KEY);
        ExecutionGuard {
            registry: Arc::clone(self),
            number,
            handle,
        }
    }

    /// Returns the execution of this context.
    pub fn find(&self, context: &CallContext) -> Option<ExecutionHandle> {
        let number = context.extra.get(EXECUTION_KEY)?.as_u64()?;
        self.lock().get(&number).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, ExecutionHandle>> {
        self.executions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl ExecutionHandle {
    /// Sends a job. If the PHP thread no longer waits, the sender of the answer is dropped, so the
    /// answer never arrives.
    pub fn send(&self, job: ExecutionJob) {
        (self.jobs)(job);
    }

    /// Sends a job to the thread and waits for its outcome.
    ///
    /// # Errors
    /// The failure of the job, or an error that `what` was cancelled if the thread no longer waits.
    pub async fn request<Q, A>(
        &self,
        to_job: impl FnOnce(Job<Q, Result<A, ToolFailure>>) -> ExecutionJob,
        question: Q,
        what: &str,
    ) -> Result<A, ToolFailure> {
        let (job, answer) = Job::new(question);
        self.send(to_job(job));
        let cancelled = |_| {
            Err(ToolFailure::new(
                ErrorCode::Cancelled,
                format!("{what} was cancelled"),
            ))
        };
        answer.await.unwrap_or_else(cancelled)
    }

    /// Returns the kinds of jobs that the application handles in this execution.
    pub fn handled_jobs(&self) -> HandledJobs {
        self.handled_jobs
    }

    /// Waits for the turn of calls whose tools are PHP code.
    pub async fn acquire_turn(&self, context: &mut CallContext) -> OwnedMutexGuard<()> {
        context.extra.insert(HOLDS_TURN_KEY.to_owned(), true.into());
        Arc::clone(&self.turn).lock_owned().await
    }

    /// Waits for the turn, unless the call already holds it.
    pub async fn acquire_turn_unless_held(
        &self,
        context: &CallContext,
    ) -> Option<OwnedMutexGuard<()>> {
        if context.extra.contains_key(HOLDS_TURN_KEY) {
            return None;
        }
        Some(Arc::clone(&self.turn).lock_owned().await)
    }
}

/// Removes an execution from its [`ExecutionRegistry`] when it is dropped.
pub struct ExecutionGuard {
    registry: Arc<ExecutionRegistry>,
    number: u64,
    handle: ExecutionHandle,
}

impl ExecutionGuard {
    /// Returns the execution.
    pub fn handle(&self) -> &ExecutionHandle {
        &self.handle
    }
}

impl Drop for ExecutionGuard {
    fn drop(&mut self) {
        self.registry.lock().remove(&self.number);
    }
}
