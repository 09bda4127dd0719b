//! Tools that are PHP code, seen from the engine.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pillion_core::tool::{
    CallContext, ErrorCode, JsonObject, Tool, ToolDefinition, ToolFailure, ToolFuture, ToolOrigin,
};

use crate::wait::{Job, JobSender};

/// The key of the call context under which a PHP tool finds who runs it.
const EXECUTION: &str = "php_execution";

/// Where the PHP threads that wait for executions can be reached.
///
/// An execution opens a line for its length; its number travels in the call context, so
/// that a tool finds the thread that waits for exactly this execution, also when one
/// execution runs inside a tool of another.
#[derive(Default)]
pub struct Switchboard {
    next: AtomicU64,
    lines: Mutex<HashMap<u64, JobSender>>,
}

impl Switchboard {
    /// Opens a line and notes it in `context`. It closes when the guard is dropped.
    pub fn open(self: &Arc<Self>, jobs: JobSender, context: &mut CallContext) -> Line {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.lines().insert(number, jobs);
        context.extra.insert(EXECUTION.to_owned(), number.into());
        Line {
            switchboard: Arc::clone(self),
            number,
        }
    }

    fn find(&self, context: &CallContext) -> Option<JobSender> {
        let number = context.extra.get(EXECUTION)?.as_u64()?;
        self.lines().get(&number).cloned()
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, HashMap<u64, JobSender>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open line of a [`Switchboard`].
pub struct Line {
    switchboard: Arc<Switchboard>,
    number: u64,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.switchboard.lines().remove(&self.number);
    }
}

/// A tool whose work is done by the PHP thread that waits for the call. The PHP object
/// itself stays in the registry's `$tools`.
pub struct PhpTool {
    definition: ToolDefinition,
    origin: ToolOrigin,
    switchboard: Arc<Switchboard>,
}

impl PhpTool {
    /// A tool of that definition; the registry finds the PHP object by its name.
    pub fn new(
        definition: ToolDefinition,
        origin: ToolOrigin,
        switchboard: Arc<Switchboard>,
    ) -> Self {
        Self {
            definition,
            origin,
            switchboard,
        }
    }
}

impl Tool for PhpTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn origin(&self) -> ToolOrigin {
        self.origin.clone()
    }

    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            let name = self.definition.name().as_str();
            let jobs = self.switchboard.find(&context).ok_or_else(|| {
                ToolFailure::new(
                    ErrorCode::Unavailable,
                    format!("Tool '{name}' is PHP code, and no PHP thread waits for this call"),
                )
            })?;
            let (job, answer) = Job::new(name.to_owned(), arguments, context.call_id);
            jobs(job);
            answer.await.unwrap_or_else(|_| {
                Err(ToolFailure::new(
                    ErrorCode::Cancelled,
                    format!("Tool '{name}' was cancelled"),
                ))
            })
        })
    }
}
