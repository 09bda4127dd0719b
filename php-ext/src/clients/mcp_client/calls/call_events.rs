//! Dispatches the start event and the end event of a call.

use std::time::{Duration, Instant};

use crate::exception::run_during_failure;
use crate::mcp::ServerLink;
use crate::mcp::hooks::{EVENT_DISPATCHER, Hooks};
use crate::values::event;
use crate::values::event::CallEnd;
use crate::zend::{Failure, Result};

/// The ID of a call and the name of its tool.
pub type CallNames<'a> = (&'a str, &'a str);

/// Dispatches the start event of a call, runs `work`, and dispatches the end event. `work` returns
/// a value, and an error code if the call failed.
///
/// # Errors
/// The failure of `work`, or an exception from a listener.
pub fn with_call_events<T>(
    link: &ServerLink,
    hooks: Hooks<'_>,
    call: CallNames<'_>,
    work: impl FnOnce() -> Result<(T, Option<&'static str>)>,
) -> Result<T> {
    let started_at = Instant::now();
    let outcome = dispatch_start(link, hooks, call).and_then(|()| work());
    let duration = started_at.elapsed();
    match outcome {
        Ok((value, code)) => dispatch_end(link, hooks, call, code, duration).map(|()| value),
        Err(failure) => Err(dispatch_failure(link, hooks, call, failure, duration)),
    }
}

/// Dispatches the start event of a call. If the dispatch fails, the caller must dispatch the end
/// event, because a listener may already have received the start event.
///
/// # Errors
/// An exception from a listener.
pub fn dispatch_start(
    link: &ServerLink,
    hooks: Hooks<'_>,
    (id, tool): CallNames<'_>,
) -> Result<()> {
    let server = link.server().display_name();
    hooks.dispatch(|| event::new_tool_call_started(tool, id, Some(&server)))
}

/// Dispatches the end event of a call.
///
/// # Errors
/// An exception from a listener.
pub fn dispatch_end(
    link: &ServerLink,
    hooks: Hooks<'_>,
    (id, tool): CallNames<'_>,
    error_code: Option<&str>,
    duration: Duration,
) -> Result<()> {
    let server = link.server().display_name();
    let call_end = CallEnd {
        tool,
        id,
        server: Some(&server),
        error_code,
        seconds: duration.as_secs_f64(),
    };
    hooks.dispatch(|| event::new_tool_call_finished(&call_end))
}

/// Dispatches the end event of a failed call, and returns the failure.
pub fn dispatch_failure(
    link: &ServerLink,
    hooks: Hooks<'_>,
    call: CallNames<'_>,
    failure: Failure,
    duration: Duration,
) -> Failure {
    if hooks.get(EVENT_DISPATCHER).is_none() {
        return failure;
    }
    run_during_failure(failure, |code| {
        dispatch_end(link, hooks, call, Some(code.as_str()), duration)
    })
}
