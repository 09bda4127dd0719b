//! Steps that need an approval.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::bench::{Bench, alice_with, echo};
use crate::executor::{
    ApprovalFuture, ApprovalRequest, Approver, Decision, Executor, ExecutorHooks,
};
use crate::tests::{assert_failure, call};
use crate::tool::{CallContext, ErrorCode};

#[tokio::test]
async fn p_after_an_approval_the_call_continues_without_repeating_steps() {
    let mut bench = Bench::new();
    bench.ask_before("delete");
    bench.compose(
        "tidy",
        json!({"steps": [
            {"parallel": [
                echo("a", json!({"n": {"$from": "/input/n"}})),
                {"name": "gone", "tool": "delete", "arguments": {"what": {"$from": "/input/n"}}},
            ]},
            echo("c", json!({"a": {"$from": "/steps/a/data/n"}, "gone": {"$from": "/steps/gone/data/what"}})),
        ]}),
    );
    let executor = bench.executor();
    let mut alice = CallContext::for_user("alice");
    let run = async |context: &CallContext, n: u32| {
        call(&executor, "tidy", json!({"n": n}), context).await
    };
    let stopped = run(&alice, 7).await;
    let message = "Step 'gone': The call to tool 'delete' needs approval";
    assert_failure(&stopped, ErrorCode::ApprovalRequired, message);
    assert_eq!(stopped.metadata["arguments"], json!({"what": 7}));
    assert_eq!(stopped.metadata["steps_kept"], json!(true));
    assert_eq!(bench.began(), 1);
    // While the approval is undecided, the call stops at the same step.
    let id = stopped.metadata["approval_id"].as_str().unwrap().to_owned();
    assert_eq!(run(&alice, 7).await.metadata["approval_id"], json!(id));
    assert_eq!(bench.began(), 1);

    alice.approved.insert(id.clone());
    // A call of another user, or with other arguments, does not continue from the checkpoint.
    let bob = CallContext {
        user: Some("bob".to_owned()),
        ..alice.clone()
    };
    for (context, n) in [(&bob, 7), (&alice, 8)] {
        let stopped = run(context, n).await;
        assert_eq!(stopped.error_code, Some(ErrorCode::ApprovalRequired));
    }
    assert_eq!(bench.began(), 3);

    let done = run(&alice, 7).await;
    assert_eq!(done.data, Some(json!({"a": 7, "gone": 7})), "{done:?}");
    assert_eq!(done.metadata["resumed"]["steps"], json!(["a"]));
    assert_eq!(bench.began(), 5);
    // The checkpoint is used up: the next call starts from the beginning.
    let again = run(&alice, 7).await;
    assert!(again.success && !again.metadata.contains_key("resumed"));
    assert_eq!(bench.began(), 8);

    let denying = CallContext {
        denied: [id].into(),
        ..CallContext::for_user("alice")
    };
    let denied = run(&denying, 7).await;
    assert_eq!(denied.error_code, Some(ErrorCode::Denied));
}

#[tokio::test]
async fn p_a_resumed_call_that_is_rejected_can_be_resumed_again() {
    let mut bench = Bench::new();
    bench.ask_before("delete");
    bench.limit("delete", 1);
    let steps = json!([echo("a", json!({})), {"name": "gone", "tool": "delete"}]);
    bench.compose("tidy", json!({"steps": steps}));
    let run = async |executor: &Executor, name: &str, context: &CallContext| {
        call(executor, name, json!({}), context).await
    };
    let executor = bench.executor();
    let mut alice = CallContext::for_user("alice");
    let stopped = run(&executor, "tidy", &alice).await;
    let id = stopped.metadata["approval_id"].as_str().unwrap();
    alice.approved.insert(id.to_owned());
    // Another call has used up the tool's rate limit meanwhile.
    assert!(run(&executor, "delete", &alice).await.success);
    for _ in 0..2 {
        let rejected = run(&executor, "tidy", &alice).await;
        assert_eq!(rejected.error_code, Some(ErrorCode::RateLimited));
    }
    // A new executor, as if the rate limit's minute were over.
    let done = run(&bench.executor(), "tidy", &alice).await;
    assert_eq!(done.metadata["resumed"]["steps"], json!(["a"]), "{done:?}");
    assert_eq!(bench.began(), 3);
}

/// An approver that approves every request after a delay.
struct Slowly(Duration);

impl Approver for Slowly {
    fn decide(&self, _: ApprovalRequest) -> ApprovalFuture {
        let pause = self.0;
        Box::pin(async move {
            tokio::time::sleep(pause).await;
            Ok(Decision::Approved)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn g3_waiting_for_an_approval_of_a_step_does_not_count_for_the_outer_call() {
    let mut bench = Bench::new();
    let timeouts = &mut bench.config.tool_timeouts;
    for name in ["inner", "outer"] {
        timeouts.insert(name.to_owned(), Duration::from_secs(2));
    }
    bench.ask_before("delete");
    let pause = |name: &str, tool: &str| {
        let arguments = json!({"ms": {"$from": "/input/ms"}});
        json!({"name": name, "tool": tool, "arguments": arguments})
    };
    let steps = [pause("a", "delete"), pause("b", "delete")];
    bench.compose("inner", json!({"steps": steps}));
    bench.compose("outer", json!({"steps": [pause("all", "inner")]}));
    let hooks = ExecutorHooks {
        approver: Some(Arc::new(Slowly(Duration::from_secs(600)))),
        ..ExecutorHooks::default()
    };
    let registry = Arc::clone(&bench.registry);
    let executor = Executor::with_hooks(registry, bench.config.clone(), hooks);
    let context = CallContext::default();
    let run = async |ms: u64| call(&executor, "outer", json!({"ms": ms}), &context).await;
    let result = run(900).await;
    assert!(result.success, "{result:?}");
    // The run time of the tools counts toward the deadline.
    let result = run(1_100).await;
    assert_eq!(result.error_code, Some(ErrorCode::Timeout), "{result:?}");
    assert_eq!(bench.began(), 4);
}

#[tokio::test]
async fn l3_stored_steps_are_only_for_callers_with_the_same_tools() {
    let mut bench = Bench::new();
    bench.ask_before("delete");
    let steps = json!([{"name": "me", "tool": "who"}, {"name": "gone", "tool": "delete"}]);
    bench.compose("tidy", json!({"steps": steps}));
    let executor = bench.executor();
    let run = async |context: &CallContext| call(&executor, "tidy", json!({}), context).await;
    let stopped = run(&alice_with(&["tidy", "who", "delete"])).await;
    assert_eq!(stopped.error_code, Some(ErrorCode::ApprovalRequired));
    let id = stopped.metadata["approval_id"].as_str().unwrap();
    let mut few = alice_with(&["tidy", "delete"]);
    few.approved.insert(id.to_owned());
    let rejected = run(&few).await;
    let message = "Step 'me': Unknown tool: who";
    assert_failure(&rejected, ErrorCode::NotFound, message);
}
