//! An observer is notified of the calls of an executor.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::executor::tests::{call, registry};
use crate::executor::{Executor, ExecutorConfig, ExecutorHooks, ObservedCall, Observer};
use crate::tool::{CallContext, ToolCall, ToolOrigin, ToolResult};

#[derive(Default)]
struct Log(parking_lot::Mutex<Vec<String>>);

impl Observer for Log {
    fn on_started(&self, call: &ToolCall, origin: Option<&ToolOrigin>, context: &CallContext) {
        let user = context.user.as_deref().unwrap_or_default();
        let line = format!("{user} starts {} {origin:?}", call.name);
        self.0.lock().push(line);
    }

    fn on_finished(
        &self,
        result: &ToolResult,
        origin: Option<&ToolOrigin>,
        _elapsed: Duration,
        _context: &CallContext,
    ) {
        let line = format!("{} {:?} {origin:?}", result.tool_name, result.error_code);
        self.0.lock().push(line);
    }

    fn on_abandoned(
        &self,
        call: &ObservedCall<'_>,
        _: Option<&ToolOrigin>,
        _: Duration,
        _: &CallContext,
    ) {
        let (id, tool) = (call.id, call.tool_name);
        self.0.lock().push(format!("{id} of {tool} is given up"));
    }
}

fn observed_executor() -> (Executor, Arc<Log>) {
    let log = Arc::new(Log::default());
    let hooks = ExecutorHooks {
        observer: Some(Arc::clone(&log) as Arc<dyn Observer>),
        ..ExecutorHooks::default()
    };
    let executor = Executor::with_hooks(registry(), ExecutorConfig::default(), hooks);
    (executor, log)
}

#[tokio::test]
async fn an_observer_is_notified_of_start_and_end_of_each_call() {
    let (executor, log) = observed_executor();
    let calls = vec![call("1", "fail", json!({})), call("2", "nope", json!({}))];
    executor.execute(calls, &CallContext::for_user("u")).await;
    let lines = log.0.lock().clone();
    let expected = [
        "u starts fail Some(Native)",
        "fail Some(InternalError) Some(Native)",
        "u starts nope None",
        "nope Some(NotFound) None",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_notified_of_a_dropped_call() {
    let (executor, log) = observed_executor();
    let context = CallContext::default();
    let call = executor.execute_one(call("7", "sleep", json!({"ms": 60_000})), &context);
    let given_up = tokio::time::timeout(Duration::from_millis(5), call).await;
    assert!(given_up.is_err());
    assert_eq!(log.0.lock().last().unwrap(), "7 of sleep is given up");
}
