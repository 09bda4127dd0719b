use std::sync::Arc;

use serde_json::json;

use super::{CallGate, GateFuture, ReadyCall};
use crate::executor::tests::{call, registry};
use crate::executor::{ApprovalPolicy, Executor, ExecutorConfig, ExecutorHooks, RateWindows};
use crate::tool::{CallContext, ErrorCode, ToolFailure, ToolOutput};

/// Answers calls of `who`, rejects calls of `fail`, and lets all other calls run.
#[derive(Default)]
struct RecordingGate(parking_lot::Mutex<Vec<ReadyCall>>);

impl CallGate for RecordingGate {
    fn enter(&self, call: ReadyCall) -> GateFuture {
        let outcome = match call.tool.name().as_str() {
            "who" => Ok(Some(ToolOutput::text("from elsewhere"))),
            "fail" => Err(ToolFailure::new(ErrorCode::RateLimited, "not now")),
            _ => Ok(None),
        };
        self.0.lock().push(call);
        Box::pin(async { outcome })
    }
}

#[tokio::test]
async fn a_gate_is_called_only_for_calls_that_are_about_to_run() {
    let gate = Arc::new(RecordingGate::default());
    let hooks = ExecutorHooks {
        gate: Some(Arc::clone(&gate) as Arc<dyn CallGate>),
        ..ExecutorHooks::default()
    };
    let mut config = ExecutorConfig {
        max_output_bytes: 16,
        ..ExecutorConfig::default()
    };
    for tool in ["sleep", "panic"] {
        let policies = &mut config.approvals.tools;
        policies.insert(tool.to_owned(), ApprovalPolicy::AlwaysAsk);
    }
    let windows = RateWindows {
        per_minute: Some(1),
        ..RateWindows::default()
    };
    config.rate_limits.tools.insert("who".to_owned(), windows);
    let executor = Executor::with_hooks(registry(), config, hooks);
    let mut context = CallContext::for_user("alice");
    let sleep = call("0", "sleep", json!({"ms": 1}));
    let waits = executor.execute_one(sleep.clone(), &context).await;
    let id = waits.metadata["approval_id"].as_str().unwrap().to_owned();
    context.approved.insert(id.clone());
    let calls = vec![
        call("1", "add", json!({"a": 1, "b": 2})),
        call("2", "add", json!({"a": 1})),
        call("3", "nope", json!({})),
        call("4", "panic", json!({})),
        sleep,
        call("6", "fail", json!({})),
        call("7", "who", json!({})),
        call("8", "who", json!({})),
    ];
    let results = executor.execute(calls, &context).await;
    let codes: Vec<_> = results.iter().map(|result| result.error_code).collect();
    let expected = [
        None,
        Some(ErrorCode::InvalidInput),
        Some(ErrorCode::NotFound),
        Some(ErrorCode::ApprovalRequired),
        None,
        Some(ErrorCode::RateLimited),
        // A call that the gate answers counts toward no rate limit; its output has the usual size
        // limit.
        None,
        None,
    ];
    assert_eq!(codes, expected);
    assert_eq!(results[7].result, json!("from elsewhere"));
    assert!(results[7].metadata.contains_key("execution_time"));
    let calls = gate.0.lock();
    let entered: Vec<_> = calls
        .iter()
        .map(|ready| (ready.context.call_id.as_str(), ready.approval.as_deref()))
        .collect();
    let id = Some(id.as_str());
    let expected = [
        ("1", None),
        ("0", id),
        ("6", None),
        ("7", None),
        ("8", None),
    ];
    assert_eq!(entered, expected);
    assert_eq!(calls[0].arguments["b"], json!(2));
}
