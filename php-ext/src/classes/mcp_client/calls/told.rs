//! What a dispatcher hears of a call: that it begins, and exactly once how it has ended.

use std::time::{Duration, Instant};

use crate::classes::event::{self, Ended};
use crate::exception::on_the_way;
use crate::mcp::Link;
use crate::mcp::hooks::{EVENTS, Hooks};
use crate::zend::Failure;

/// The id of a call, and its tool.
pub type Named<'a> = (&'a str, &'a str);

/// Tells that a call begins, does it, and tells how it has ended. `work` gives a value, and an
/// error code if the call failed.
///
/// # Errors
/// As `work`, and what a listener throws.
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

/// Tells that a call begins. Also where this fails some listener may have heard it: the end
/// must be told.
///
/// # Errors
/// What a listener throws.
pub fn tell_start(link: &Link, hooks: Hooks<'_>, (id, tool): Named<'_>) -> Result<(), Failure> {
    let server = link.server().shown_name();
    hooks.dispatch(|| event::tool_call_started(tool, id, Some(&server)))
}

/// Tells how a call has ended.
///
/// # Errors
/// What a listener throws.
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

/// Tells that a call has ended by a failure, which goes on afterwards.
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
