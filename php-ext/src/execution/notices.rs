use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pillion_core::executor::Observer;
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolOrigin, ToolResult};
use serde_json::json;

use crate::classes::event::{self, CallEnd};
use crate::exception::run_during_failure;
use crate::execution_registry::{CallNotification, ExecutionJob, ExecutionRegistry};
use crate::mcp::hooks::{self, Hooks};
use crate::settings::LogLevel;
use crate::zend::Failure;

/// Notifies the PHP thread that waits for a call of the call's start and end, if it has a logger or
/// an event dispatcher.
pub(super) struct PhpObserver {
    executions: Arc<ExecutionRegistry>,
}

impl PhpObserver {
    pub(super) fn new(executions: &Arc<ExecutionRegistry>) -> Self {
        Self {
            executions: Arc::clone(executions),
        }
    }

    fn send(&self, context: &CallContext, notice: impl FnOnce() -> CallNotification) {
        let execution = self.executions.find(context);
        if let Some(execution) = execution.filter(|execution| execution.handled_jobs().notices) {
            execution.send(ExecutionJob::Notice(notice()));
        }
    }
}

impl Observer for PhpObserver {
    fn on_started(&self, call: &ToolCall, origin: Option<&ToolOrigin>, context: &CallContext) {
        self.send(context, || CallNotification {
            tool: call.name.clone(),
            call_id: call.id.clone(),
            server: server_of(origin),
            ended: None,
        });
    }

    fn on_finished(
        &self,
        result: &ToolResult,
        origin: Option<&ToolOrigin>,
        elapsed: Duration,
        context: &CallContext,
    ) {
        self.send(context, || CallNotification {
            tool: result.tool_name.clone(),
            call_id: result.tool_call_id.clone(),
            server: server_of(origin),
            ended: Some((result.error_code, elapsed)),
        });
    }
}

fn server_of(origin: Option<&ToolOrigin>) -> Option<String> {
    match origin? {
        ToolOrigin::Mcp {
            server_label,
            server_url,
        } => {
            let named = !server_label.is_empty();
            Some(if named { server_label } else { server_url }.clone())
        }
        _ => None,
    }
}

/// The calls of an execution that have started and not finished.
#[derive(Default)]
pub struct StartedCalls(RefCell<Vec<(CallNotification, Instant)>>);

impl StartedCalls {
    /// Forwards a notice.
    ///
    /// # Errors
    /// An exception from a listener or from the logger.
    pub(super) fn forward(
        &self,
        hooks: Hooks<'_>,
        notice: &CallNotification,
    ) -> Result<(), Failure> {
        let mut started_calls = self.0.borrow_mut();
        let is_same = |(other, _): &(CallNotification, Instant)| other.call_id == notice.call_id;
        match (&notice.ended, started_calls.iter().position(is_same)) {
            (None, _) => started_calls.push((notice.clone(), Instant::now())),
            (Some(_), Some(index)) => drop(started_calls.remove(index)),
            (Some(_), None) => {}
        }
        drop(started_calls);
        dispatch(hooks, notice)
    }

    /// Dispatches the end of all started calls as cancelled.
    ///
    /// # Errors
    /// An exception from a listener or from the logger.
    pub fn dispatch_cancelled(&self, hooks: Hooks<'_>) -> Result<(), Failure> {
        self.0.take().into_iter().try_for_each(|(notice, started)| {
            let ended = Some((Some(ErrorCode::Cancelled), started.elapsed()));
            dispatch(hooks, &CallNotification { ended, ..notice })
        })
    }

    /// Dispatches the end of all started calls as failed, and returns the failure.
    pub fn dispatch_failed(&self, hooks: Option<Hooks<'_>>, failure: Failure) -> Failure {
        let Some(hooks) = hooks else { return failure };
        self.0
            .take()
            .into_iter()
            .fold(failure, |failure, (notice, started)| {
                run_during_failure(failure, |code| {
                    let ended = Some((Some(code), started.elapsed()));
                    dispatch(hooks, &CallNotification { ended, ..notice })
                })
            })
    }
}

/// Forwards a notice as an event and as a PSR-3 log message.
fn dispatch(hooks: Hooks<'_>, notice: &CallNotification) -> Result<(), Failure> {
    let (tool, id) = (notice.tool.as_str(), notice.call_id.as_str());
    let server = notice.server.as_deref();
    let Some((error_code, elapsed)) = notice.ended else {
        return hooks.dispatch(|| event::tool_call_started(tool, id, server));
    };
    let error_code = error_code.map(|code| code.as_str());
    let seconds = elapsed.as_secs_f64();
    if hooks.get(hooks::LOGGER).is_some() {
        let level = match error_code {
            None => LogLevel::Info,
            Some(_) => LogLevel::Warning,
        };
        let message = match error_code {
            None => "Tool call succeeded",
            Some(_) => "Tool call failed",
        };
        hooks.log(level, message, || {
            json!({"tool": tool, "call_id": id, "server": server, "error_code": error_code, "seconds": seconds})
        })?;
    }
    hooks.dispatch(|| {
        event::tool_call_finished(&CallEnd {
            tool,
            id,
            server,
            error_code,
            seconds,
        })
    })
}
