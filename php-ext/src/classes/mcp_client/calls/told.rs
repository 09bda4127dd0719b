//! The events of a call: its start, and exactly once its end.

use std::time::{Duration, Instant};

use crate::classes::event::{self, Ended};
use crate::exception::on_the_way;
use crate::mcp::Link;
use crate::mcp::hooks::{EVENTS, Hooks};
use crate::zend::Failure;

/// The ID of a call and the name of its tool.
pub type Named<'a> = (&'a str, &'a str);

/// Dispatches the start of a call, runs `work`, and dispatches the end. `work` returns a value, and
/// an error code if the call failed.
///
/// # Errors
/// Failures of `work`, and exceptions from a listener.
pub fn telling<T>(
    link: &Link,
    hooks: Hooks<'_>,
    call: Named<'_>,
    work: impl FnOnce() -> Result<(T, Option<&'static str>), Failure>,
) -> Result<T, Failure> {
    let started = Instant::now();
    let outcome = tell_start(link, hooks, call).and_then(|()| work());
    let time = started.elapsed();
    match outcome {
        Ok((value, code)) => tell_end(link, hooks, call, code, time).map(|()| value),
        Err(failure) => Err(tell_failure(link, hooks, call, failure, time)),
    }
}

/// Dispatches the start of a call. If the dispatch fails, a listener may already have received the
/// event, so the end must be dispatched as well.
///
/// # Errors
/// An exception from a listener.
pub fn tell_start(link: &Link, hooks: Hooks<'_>, (id, tool): Named<'_>) -> Result<(), Failure> {
    let server = link.server().shown_name();
    hooks.dispatch(|| event::tool_call_started(tool, id, Some(&server)))
}

/// Dispatches the end of a call.
///
/// # Errors
/// An exception from a listener.
pub fn tell_end(
    link: &Link,
    hooks: Hooks<'_>,
    (id, tool): Named<'_>,
    error_code: Option<&str>,
    time: Duration,
) -> Result<(), Failure> {
    let server = link.server().shown_name();
    let ended = Ended {
        tool,
        id,
        server: Some(&server),
        error_code,
        seconds: time.as_secs_f64(),
    };
    hooks.dispatch(|| event::tool_call_finished(&ended))
}

/// Dispatches the end of a call that failed, and returns the failure.
pub fn tell_failure(
    link: &Link,
    hooks: Hooks<'_>,
    call: Named<'_>,
    failure: Failure,
    time: Duration,
) -> Failure {
    if hooks.get(EVENTS).is_none() {
        return failure;
    }
    on_the_way(failure, |code| {
        tell_end(link, hooks, call, Some(code.as_str()), time)
    })
}
