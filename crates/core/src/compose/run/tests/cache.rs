//! Cached results of composed tools and of their steps.

use serde_json::json;

use super::bench::{Bench, alice_with, echo};
use crate::executor::CacheScope;
use crate::tests::call;
use crate::tool::{CallContext, ErrorCode};

#[tokio::test]
async fn p_a_step_may_use_a_cached_result() {
    let mut bench = Bench::new();
    bench.cache("echo", CacheScope::Private);
    let steps = ["a", "b"].map(|name| echo(name, json!({"x": 1})));
    bench.compose("same", json!({"steps": steps}));
    assert!(bench.run("same", json!({})).await.success);
    assert_eq!(bench.began(), 1);
}

#[tokio::test]
async fn l1_the_result_of_a_composed_tool_is_cached_for_its_caller_only() {
    let mut bench = Bench::new();
    bench.cache("ask", CacheScope::Public);
    bench.compose("ask", json!({"steps": [{"name": "me", "tool": "who"}]}));
    let executor = bench.executor();
    for user in ["alice", "bob", "alice"] {
        let result = call(&executor, "ask", json!({}), &CallContext::for_user(user)).await;
        assert_eq!(result.result["user"], json!(user));
    }
    assert_eq!(executor.cache_counts().hits, 1);
}

#[tokio::test]
async fn h2_l3_a_cached_result_is_only_for_callers_with_the_same_tools() {
    let mut bench = Bench::new();
    bench.cache("ask", CacheScope::Private);
    bench.compose("ask", json!({"steps": [{"name": "me", "tool": "who"}]}));
    let executor = bench.executor();
    let run = async |context: &CallContext| call(&executor, "ask", json!({}), context).await;
    let many = alice_with(&["ask", "who"]);
    assert!(run(&many).await.success);
    let rejected = run(&alice_with(&["ask"])).await;
    let code = rejected.error_code;
    assert_eq!(code, Some(ErrorCode::NotFound), "{rejected:?}");
    // A call with an equal tool filter shares the cached result; a call in another channel does
    // not.
    assert!(run(&alice_with(&["ask", "who"])).await.success);
    assert_eq!(executor.cache_counts().hits, 1);
    let elsewhere = CallContext {
        channel: Some("#other".to_owned()),
        ..many
    };
    assert!(run(&elsewhere).await.success);
    assert_eq!(executor.cache_counts().hits, 1);
}

#[tokio::test]
async fn p_a_changed_composed_tool_has_no_cached_results() {
    let mut bench = Bench::new();
    bench.cache("ask", CacheScope::Private);
    let executor = bench.executor();
    let run = async || {
        let alice = CallContext::for_user("alice");
        call(&executor, "ask", json!({}), &alice).await
    };
    bench.compose("ask", json!({"steps": [echo("a", json!({"n": 1}))]}));
    assert_eq!(run().await.data, Some(json!({"n": 1})));
    bench.registry.unregister("ask");
    bench.compose("ask", json!({"steps": [echo("a", json!({"n": 2}))]}));
    assert_eq!(run().await.data, Some(json!({"n": 2})));
}

/// A tool may see whether its user is verified, as sandboxed tools do.
#[tokio::test]
async fn l1_cached_results_of_claimed_and_verified_users_are_separate() {
    for (cached_tool, called_tool) in [("who", "who"), ("who", "ask"), ("ask", "ask")] {
        let mut bench = Bench::new();
        bench.cache(cached_tool, CacheScope::Private);
        bench.compose("ask", json!({"steps": [{"name": "me", "tool": "who"}]}));
        let executor = bench.executor();
        for (is_user_verified, hits) in [(true, 0), (false, 0), (true, 1), (false, 2)] {
            let context = CallContext {
                is_user_verified,
                ..CallContext::for_user("alice")
            };
            let result = call(&executor, called_tool, json!({}), &context).await;
            assert_eq!(result.result["is_verified"], json!(is_user_verified));
            let hit_count = executor.cache_counts().hits;
            assert_eq!(hit_count, hits, "{cached_tool}, {called_tool}");
        }
    }
}
