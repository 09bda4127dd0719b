//! Dispatches the events of a call: its start, and exactly once its end.

use std::time::{Duration, Instant};

use crate::exception::run_during_failure;
use crate::mcp::ServerLink;
use crate::mcp::hooks::{EVENTS, Hooks};
use crate::values::event;
use crate::values::event::CallEnd;
use crate::zend::Failure;

/// The ID of a call and the name of its tool.
pub type CallNames<'a> = (&'a str, &'a str);

/// Dispatches the start of a call, runs `work`, and dispatches the end. `work` returns a value,
/// with an error code if the call failed.
///
/// # Errors
/// The failure of `work`, or an exception from a listener.
pub fn with_call_events<T>(
    link: &ServerLink,
    hooks: Hooks<'_>,
    call: CallNames<'_>,
    work: impl FnOnce() -> Result<(T, Option<&'static str>), Failure>,
) -> Result<T, Failure> {
    let started = Instant::now();
    let outcome = dispatch_start(link, hooks, call).and_then(|()| work());
    let time = started.elapsed();
    match outcome {
        Ok((value, code)) => dispatch_end(link, hooks, call, code, time).map(|()| value),
        Err(failure) => Err(dispatch_failure(link, hooks, call, failure, time)),
    }
}

/// Dispatches the start of a call. If that fails, a listener may already have received the event,
/// so the end must be dispatched as well.
///
/// # Errors
/// An exception from a listener.
pub fn dispatch_start(
    link: &ServerLink,
    hooks: Hooks<'_>,
    (id, tool): CallNames<'_>,
) -> Result<(), Failure> {
    let server = link.server().display_name();
    hooks.dispatch(|| event::tool_call_started(tool, id, Some(&server)))
}

/// Dispatches the end of a call.
///
/// # Errors
/// An exception from a listener.
pub fn dispatch_end(
    link: &ServerLink,
    hooks: Hooks<'_>,
    (id, tool): CallNames<'_>,
    error_code: Option<&str>,
    time: Duration,
) -> Result<(), Failure> {
    let server = link.server().display_name();
    let ended = CallEnd {
        tool,
        id,
        server: Some(&server),
        error_code,
        seconds: time.as_secs_f64(),
    };
    hooks.dispatch(|| event::tool_call_finished(&ended))
}

/// Dispatches the end of a call that failed, and returns the failure.
pub fn dispatch_failure(
    link: &ServerLink,
    hooks: Hooks<'_>,
    call: CallNames<'_>,
    failure: Failure,
    time: Duration,
) -> Failure {
    if hooks.get(EVENTS).is_none() {
        return failure;
    }
    run_during_failure(failure, |code| {
        dispatch_end(link, hooks, call, Some(code.as_str()), time)
    })
}
