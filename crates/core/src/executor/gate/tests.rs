use std::sync::Arc;

use serde_json::json;

use super::{CallGate, GateFuture, ReadyCall};
use crate::executor::tests::{call, registry};
use crate::executor::{
    ApprovalPolicy, ApprovalRules, Executor, ExecutorConfig, ExecutorHooks, RateLimits, RateWindows,
};
use crate::tool::{CallContext, ErrorCode, ToolFailure, ToolOutput};

/// Answers calls of `who`, rejects calls of `fail`, and lets all other calls run.
#[derive(Default)]
struct Porter(parking_lot::Mutex<Vec<ReadyCall>>);

impl CallGate for Porter {
    fn enter(&self, call: ReadyCall) -> GateFuture {
        let answer = match call.tool.name().as_str() {
            "who" => Ok(Some(ToolOutput::text("from elsewhere"))),
            "fail" => Err(ToolFailure::new(ErrorCode::RateLimited, "not now")),
            _ => Ok(None),
        };
        self.0.lock().push(call);
        Box::pin(async { answer })
    }
}

#[tokio::test]
async fn a_gate_is_called_only_for_calls_that_are_about_to_run() {
    let porter = Arc::new(Porter::default());
    let hooks = ExecutorHooks {
        gate: Some(Arc::clone(&porter) as Arc<dyn CallGate>),
        ..ExecutorHooks::default()
    };
    let ask = |tool: &str| (tool.to_owned(), ApprovalPolicy::AlwaysAsk);
    let config = ExecutorConfig {
        approvals: ApprovalRules {
            tools: [ask("sleep"), ask("panic")].into(),
            ..ApprovalRules::default()
        },
        rate_limits: RateLimits {
            tools: [(
                "who".to_owned(),
                RateWindows {
                    per_minute: Some(1),
                    ..RateWindows::default()
                },
            )]
            .into(),
            ..RateLimits::default()
        },
        max_output_bytes: 16,
        ..ExecutorConfig::default()
    };
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
    let asked: Vec<_> = porter
        .0
        .lock()
        .iter()
        .map(|ready| (ready.context.call_id.clone(), ready.approval.clone()))
        .collect();
    let expected = [
        ("1", None),
        ("0", Some(id)),
        ("6", None),
        ("7", None),
        ("8", None),
    ];
    assert_eq!(asked, expected.map(|(call, id)| (call.to_owned(), id)));
    assert_eq!(porter.0.lock()[0].arguments["b"], json!(2));
}
