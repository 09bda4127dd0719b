use std::cell::RefCell;
use std::time::Instant;

use pillion_core::job_channel::{CallEnd, CallNotification};
use pillion_core::tool::ErrorCode;
use serde_json::json;

use crate::exception::run_during_failure;
use crate::log::LogLevel;
use crate::mcp::hooks::{self, Hooks};
use crate::values::event;
use crate::zend::{Failure, Result};

/// The calls of an execution that have started and have not finished.
#[derive(Default)]
pub struct StartedCalls(RefCell<Vec<(CallNotification, Instant)>>);

impl StartedCalls {
    /// Forwards the notification about a call to the application.
    ///
    /// # Errors
    /// An exception from a listener or from the logger.
    pub(super) fn forward(&self, hooks: Hooks<'_>, notification: &CallNotification) -> Result<()> {
        let mut calls = self.0.borrow_mut();
        let is_same_call = |(started_call, _): &(CallNotification, Instant)| {
            started_call.call_id == notification.call_id
        };
        match (&notification.end, calls.iter().position(is_same_call)) {
            (None, _) => calls.push((notification.clone(), Instant::now())),
            (Some(_), Some(index)) => drop(calls.remove(index)),
            (Some(_), None) => {}
        }
        drop(calls);
        dispatch(hooks, notification)
    }

    /// Dispatches the end events of all started calls, with the error code for a cancellation.
    ///
    /// # Errors
    /// An exception from a listener or from the logger.
    pub fn dispatch_cancelled(&self, hooks: Hooks<'_>) -> Result<()> {
        self.0
            .take()
            .into_iter()
            .try_for_each(|(call, started_at)| {
                dispatch(
                    hooks,
                    &to_failure_notification(call, started_at, ErrorCode::Cancelled),
                )
            })
    }

    /// Dispatches the end events of all started calls as failed, and returns the failure.
    pub fn dispatch_failed(&self, hooks: Option<Hooks<'_>>, failure: Failure) -> Failure {
        let Some(hooks) = hooks else { return failure };
        self.0
            .take()
            .into_iter()
            .fold(failure, |failure, (notification, started_at)| {
                run_during_failure(failure, |code| {
                    dispatch(
                        hooks,
                        &to_failure_notification(notification, started_at, code),
                    )
                })
            })
    }
}

/// Creates the notification that a started call has failed at the current time.
fn to_failure_notification(
    call: CallNotification,
    started_at: Instant,
    code: ErrorCode,
) -> CallNotification {
    CallNotification {
        end: Some(CallEnd {
            error_code: Some(code),
            elapsed: started_at.elapsed(),
        }),
        ..call
    }
}

/// Forwards the notification about a call as an event and as a PSR-3 log message.
fn dispatch(hooks: Hooks<'_>, notification: &CallNotification) -> Result<()> {
    let (tool, id) = (notification.tool.as_str(), notification.call_id.as_str());
    let server = notification.server.as_deref();
    let Some(call_end) = notification.end else {
        return hooks.dispatch(|| event::new_tool_call_started(tool, id, server));
    };
    let error_code = call_end.error_code.map(|code| code.as_str());
    let seconds = call_end.elapsed.as_secs_f64();
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
        event::new_tool_call_finished(&event::CallEnd {
            tool,
            id,
            server,
            error_code,
            seconds,
        })
    })
}
