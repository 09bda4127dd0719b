use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use crate::registry::RegisteredTool;
use crate::tool::{
    CallContext, ErrorCode, JsonObject, PausableClock, ToolFailure, ToolOrigin, ToolOutput,
};

/// A call that may run.
pub(super) struct Ready<'a> {
    pub(super) tool: &'a RegisteredTool,
    pub(super) arguments: JsonObject,
    pub(super) context: CallContext,
    /// The maximum duration of the call; `deadline` is the time at which that duration ends.
    pub(super) limit: Duration,
    pub(super) deadline: Instant,
    /// The pausable clock of a call that makes nested calls.
    pub(super) clock: Option<Arc<PausableClock>>,
}

/// Runs the tool in its own task, and waits until the call's deadline.
///
/// The task is aborted when the deadline passes or the caller goes away. A panic fails only this
/// call.
pub(super) async fn until(ready: Ready<'_>) -> Result<ToolOutput, ToolFailure> {
    let Ready {
        tool,
        arguments,
        mut context,
        limit,
        deadline,
        clock,
    } = ready;
    let name = tool.name();
    let handler = Arc::clone(tool.tool());
    context.deadline = Some(deadline);
    // Inside the task, because `call` itself may panic before it returns a future.
    let run = async move { handler.call(arguments, context).await };
    // Log lines of the tool belong to the span of the call.
    let task = AbortOnDropHandle::new(tokio::spawn(run.in_current_span()));
    let ended = match clock {
        None => pillion_deadline::timeout_at(deadline, task).await.ok(),
        Some(clock) => tokio::select! {
            biased;
            ended = task => Some(ended),
            // Boxed, because the future of every call would be larger otherwise.
            () = Box::pin(clock.wait_until(deadline)) => None,
        },
    };
    match ended {
        Some(Ok(outcome)) => outcome,
        Some(Err(join_error)) if join_error.is_panic() => {
            tracing::error!(tool.name = %name, "Tool `{name}` panicked");
            Err(ToolFailure::internal(format!(
                "Tool '{name}' failed unexpectedly"
            )))
        }
        Some(Err(_)) => Err(ToolFailure::new(
            ErrorCode::Cancelled,
            format!("Tool '{name}' was cancelled"),
        )),
        None => Err(timed_out(tool, limit)),
    }
}

/// Returns the failure of a call that exceeded its time limit.
pub(super) fn timed_out(tool: &RegisteredTool, limit: Duration) -> ToolFailure {
    let (name, limit) = (tool.name(), seconds_text(limit));
    let message = match tool.origin() {
        ToolOrigin::Mcp { server_label, .. } if !server_label.is_empty() => {
            format!("Tool '{name}' of server '{server_label}' timed out after {limit}")
        }
        ToolOrigin::Mcp { .. } | ToolOrigin::Native => {
            format!("Tool '{name}' timed out after {limit}")
        }
    };
    ToolFailure::new(ErrorCode::Timeout, message)
}

/// Formats a duration like a Python float of seconds: `30.0s`, `0.5s`.
pub(super) fn seconds_text(duration: Duration) -> String {
    format!("{:?}s", duration.as_secs_f64())
}
