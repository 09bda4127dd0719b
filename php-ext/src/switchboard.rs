//! Routes work that only PHP can do to the PHP thread that waits for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pillion_core::executor::{ApprovalRequest, Decision, ReadyCall};
use pillion_core::tool::{CallContext, ErrorCode, JsonObject, ToolFailure, ToolOutput};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::mcp::Errand;
use crate::wait::{Job, JobSender};

/// The key of the call context that holds the number of an execution's line.
const EXECUTION: &str = "php_execution";
/// The key of the call context that marks that the call holds the turn of its line.
const HOLDS_TURN: &str = "php_turn";

/// The keys that an execution adds to the context of its calls. They are internal.
pub const KEYS: [&str; 2] = [EXECUTION, HOLDS_TURN];

/// A job that the engine passes to the PHP thread.
pub enum Work {
    /// Run a tool in PHP.
    Run(Job<Run, Result<ToolOutput, ToolFailure>>),
    /// Ask the application whether a call may run.
    Approve(Job<Box<ApprovalRequest>, Result<Decision, ToolFailure>>),
    /// Ask the application before a call runs.
    Enter(Job<Box<ReadyCall>, Result<Option<ToolOutput>, ToolFailure>>),
    /// Notify the application about a call.
    Notice(Notice),
    /// Handle a job of an MCP client's server. The number is the index of the client among the
    /// participants.
    Mcp(usize, Errand),
}

/// The start or the end of a call. It contains no arguments and no result.
#[derive(Clone)]
pub struct Notice {
    /// The name that was called.
    pub tool: String,
    /// The id of the call.
    pub call_id: String,
    /// The MCP server that the tool belongs to.
    pub server: Option<String>,
    /// The reason if the call failed, and its duration.
    pub ended: Option<(Option<ErrorCode>, Duration)>,
}

/// The kinds of work that an application handles.
#[derive(Debug, Clone, Copy, Default)]
pub struct Serves {
    /// It decides on approvals.
    pub approvals: bool,
    /// It is asked before a call runs.
    pub gate: bool,
    /// It receives notices about calls.
    pub notices: bool,
}

/// A run of a tool in PHP.
pub struct Run {
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
/// An execution opens a line for its duration. The line's number is part of the call context, so
/// that a tool finds the thread that waits for exactly this execution, even if one execution runs
/// inside a tool of another.
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
    /// A call that holds the turn can expect the thread to be free, so that the timeout of a tool
    /// does not elapse while the thread asks the user about another call.
    turn: Arc<AsyncMutex<()>>,
}

impl Switchboard {
    /// Opens a line and stores its number in `context`. The line closes when the guard is dropped.
    /// `serves` specifies which kinds of [`Work`] may be sent over it in addition to runs.
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

    /// Returns the line of the thread that waits for this context's execution.
    pub fn find(&self, context: &CallContext) -> Option<Line> {
        let number = context.extra.get(EXECUTION)?.as_u64()?;
        self.lines().get(&number).cloned()
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    /// Sends work. If the PHP thread no longer waits, the sender of the answer is dropped, so the
    /// answer never arrives.
    pub fn send(&self, work: Work) {
        (self.jobs)(work);
    }

    /// Sends work to the thread and waits for its outcome.
    ///
    /// # Errors
    /// The failure of the work, or an error that `what` was canceled if the thread no longer waits.
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

    /// Returns the kinds of work that the application behind this line handles.
    pub fn serves(&self) -> Serves {
        self.serves
    }

    /// Waits for the turn of calls whose tools are PHP code.
    pub async fn turn(&self, context: &mut CallContext) -> OwnedMutexGuard<()> {
        context.extra.insert(HOLDS_TURN.to_owned(), true.into());
        Arc::clone(&self.turn).lock_owned().await
    }

    /// Waits for the turn, unless the call already holds it.
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
    /// Returns the line.
    pub fn line(&self) -> &Line {
        &self.line
    }
}

impl Drop for OpenLine {
    fn drop(&mut self) {
        self.switchboard.lines().remove(&self.number);
    }
}
