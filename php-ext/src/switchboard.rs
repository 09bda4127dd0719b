//! How work that only PHP can do finds the PHP thread that waits for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pillion_core::executor::{ApprovalRequest, Decision, ReadyCall};
use pillion_core::tool::{CallContext, ErrorCode, JsonObject, ToolFailure, ToolOutput};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::mcp::Errand;
use crate::wait::{Job, JobSender};

/// The key of the call context under which an execution's line is found.
const EXECUTION: &str = "php_execution";
/// The key that says that the call holds the turn of its line.
const HOLDS_TURN: &str = "php_turn";

/// The keys that an execution adds to the context of its calls: nobody else's business.
pub const KEYS: [&str; 2] = [EXECUTION, HOLDS_TURN];

/// What the engine asks of the PHP thread.
pub enum Work {
    /// To run a tool in PHP.
    Run(Job<Run, Result<ToolOutput, ToolFailure>>),
    /// To ask the application whether a call may run.
    Approve(Job<Box<ApprovalRequest>, Result<Decision, ToolFailure>>),
    /// To ask the application before a call runs.
    Enter(Job<Box<ReadyCall>, Result<Option<ToolOutput>, ToolFailure>>),
    /// To tell the application of a call.
    Notice(Notice),
    /// What the server of an MCP client wants, which takes part in that place.
    Mcp(usize, Errand),
}

/// That a call begins or has ended. It holds no arguments and no result.
#[derive(Clone)]
pub struct Notice {
    /// The name that was called.
    pub tool: String,
    /// The id of the call.
    pub call_id: String,
    /// The MCP server that the tool is of.
    pub server: Option<String>,
    /// Why it failed, if it did, and how long it took.
    pub ended: Option<(Option<ErrorCode>, Duration)>,
}

/// What an application takes part in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Serves {
    /// It decides on approvals.
    pub approvals: bool,
    /// It is asked before a call runs.
    pub gate: bool,
    /// It wants to know of calls.
    pub notices: bool,
}

/// A run of a tool in PHP.
pub struct Run {
    /// The tool's own name.
    pub tool: String,
    /// [`PhpTool::number`](crate::php_tool::PhpTool::number).
    pub number: u64,
    /// The arguments, validated.
    pub arguments: JsonObject,
    /// The id of the call.
    pub call_id: String,
}

/// Where the PHP threads that wait for executions can be reached.
///
/// An execution opens a line for its length; its number travels in the call context, so
/// that a tool finds the thread that waits for exactly this execution, also when one
/// execution runs inside a tool of another.
#[derive(Default)]
pub struct Switchboard {
    next: AtomicU64,
    lines: Mutex<HashMap<u64, Line>>,
}

/// An open line to a PHP thread.
#[derive(Clone)]
pub struct Line {
    jobs: JobSender<Work>,
    serves: Serves,
    /// Who has the turn may expect the thread to be free: the time limit of a tool must not
    /// pass while the thread asks somebody about another call.
    turn: Arc<AsyncMutex<()>>,
}

impl Switchboard {
    /// Opens a line and notes it in `context`. It closes when the guard is dropped.
    /// `serves` says what of [`Work`] may be sent over it, beside runs.
    pub fn open(
        self: &Arc<Self>,
        jobs: JobSender<Work>,
        serves: Serves,
        context: &mut CallContext,
    ) -> OpenLine {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let line = Line {
            jobs,
            serves,
            turn: Arc::default(),
        };
        self.lines().insert(number, line.clone());
        context.extra.insert(EXECUTION.to_owned(), number.into());
        context.extra.shift_remove(HOLDS_TURN);
        OpenLine {
            switchboard: Arc::clone(self),
            number,
            line,
        }
    }

    /// The line on which the caller of this context waits.
    pub fn find(&self, context: &CallContext) -> Option<Line> {
        let number = context.extra.get(EXECUTION)?.as_u64()?;
        self.lines().get(&number).cloned()
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    /// Sends work. If the PHP thread has gone away, the answer never comes: the sender of
    /// it is dropped.
    pub fn send(&self, work: Work) {
        (self.jobs)(work);
    }

    /// Has work done by the thread and waits for its outcome.
    ///
    /// # Errors
    /// What the work fails with, or that the thread waits no more: then `what` was cancelled.
    pub async fn ask<Q, A>(
        &self,
        work: impl FnOnce(Job<Q, Result<A, ToolFailure>>) -> Work,
        question: Q,
        what: &str,
    ) -> Result<A, ToolFailure> {
        let (job, answer) = Job::new(question);
        self.send(work(job));
        let gone = |_| {
            Err(ToolFailure::new(
                ErrorCode::Cancelled,
                format!("{what} was cancelled"),
            ))
        };
        answer.await.unwrap_or_else(gone)
    }

    /// What the application at the end of this line takes part in.
    pub fn serves(&self) -> Serves {
        self.serves
    }

    /// Waits for the turn of calls whose tools are PHP code.
    pub async fn turn(&self, context: &mut CallContext) -> OwnedMutexGuard<()> {
        context.extra.insert(HOLDS_TURN.to_owned(), true.into());
        Arc::clone(&self.turn).lock_owned().await
    }

    /// Waits for the turn, unless the call has it already.
    pub async fn turn_of_another(&self, context: &CallContext) -> Option<OwnedMutexGuard<()>> {
        if context.extra.contains_key(HOLDS_TURN) {
            return None;
        }
        Some(Arc::clone(&self.turn).lock_owned().await)
    }
}

/// Closes a line of a [`Switchboard`] when it is dropped.
pub struct OpenLine {
    switchboard: Arc<Switchboard>,
    number: u64,
    line: Line,
}

impl OpenLine {
    /// The line itself.
    pub fn line(&self) -> &Line {
        &self.line
    }
}

impl Drop for OpenLine {
    fn drop(&mut self) {
        self.switchboard.lines().remove(&self.number);
    }
}
