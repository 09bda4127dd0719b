use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::executor::{
    CacheConfig, CacheRule, CacheScope, Executor, ExecutorConfig, ExecutorHooks,
};
use crate::registry::ToolRegistry;
use crate::tool::{
    ActingIdentity, ActingIdentityFuture, CallContext, ErrorCode, JsonObject, Tool, ToolCall,
    ToolDefinition, ToolFailure, ToolFuture, ToolOrigin, ToolOutput, ToolResult,
};

/// Returns the argument `answer` after 100 ms, or fails if that is "fail"; counts its runs.
struct Answers {
    definition: ToolDefinition,
    origin: ToolOrigin,
    runs: Arc<AtomicUsize>,
    /// Whether the tool acts for its users; "nobody" has no acting identity.
    acts_for_users: bool,
}

impl Tool for Answers {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn origin(&self) -> ToolOrigin {
        self.origin.clone()
    }

    fn acting_identity(&self, context: &CallContext) -> Option<ActingIdentityFuture> {
        let user = context.user.clone().unwrap_or_default();
        self.acts_for_users.then(|| -> ActingIdentityFuture {
            Box::pin(async move {
                match user.as_str() {
                    "nobody" => Err(ToolFailure::new(ErrorCode::Denied, "no credential")),
                    _ => Ok(ActingIdentity {
                        connection: None,
                        identity: "the user".to_owned(),
                        credential: "the same for all".to_owned(),
                    }),
                }
            })
        })
    }

    fn call(self: Arc<Self>, arguments: JsonObject, _: CallContext) -> ToolFuture {
        self.runs.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            match arguments.get("answer").cloned().unwrap_or_default() {
                Value::String(text) if text == "fail" => Err(ToolFailure::internal("no")),
                answer => Ok(ToolOutput::value(answer)),
            }
        })
    }
}

/// Returns an executor with the tool `answer`, and the counter of its runs.
fn answering(cache: CacheConfig, origin: ToolOrigin) -> (Executor, Arc<AtomicUsize>) {
    answering_for(false, cache, origin)
}

fn answering_for(
    acts_for_users: bool,
    cache: CacheConfig,
    origin: ToolOrigin,
) -> (Executor, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let tool = Answers {
        definition: ToolDefinition::builder("answer", "Answers")
            .build()
            .unwrap(),
        origin,
        runs: Arc::clone(&runs),
        acts_for_users,
    };
    let registry = ToolRegistry::new();
    registry.register(Arc::new(tool)).unwrap();
    let config = ExecutorConfig {
        cache,
        timeout: Duration::from_secs(1),
        ..ExecutorConfig::default()
    };
    (Executor::new(Arc::new(registry), config), runs)
}

fn rule(scope: CacheScope) -> CacheConfig {
    let ttl = Duration::from_secs(60);
    CacheConfig {
        tools: [("answer".to_owned(), CacheRule { ttl, scope })].into(),
        ..CacheConfig::default()
    }
}

async fn ask(executor: &Executor, user: &str, arguments: Value) -> ToolResult {
    let call = ToolCall::new("c", "answer", arguments);
    executor
        .execute_one(call, &CallContext::for_user(user))
        .await
}

fn is_cached(result: &ToolResult) -> bool {
    result.metadata.get("cached") == Some(&json!(true))
}

#[tokio::test(start_paused = true)]
async fn a_result_is_cached_for_its_user_until_its_ttl_ends() {
    let (executor, runs) = answering(rule(CacheScope::Private), ToolOrigin::Native);
    let first = ask(&executor, "alice", json!({"answer": 1, "b": 2})).await;
    assert!(first.success && !is_cached(&first));
    // The order of the arguments does not matter.
    let second = ask(&executor, "alice", json!({"b": 2, "answer": 1})).await;
    assert!(is_cached(&second), "{second:?}");
    assert_eq!(second.result, first.result);
    assert!(!is_cached(
        &ask(&executor, "bob", json!({"answer": 1, "b": 2})).await
    ));
    assert!(!is_cached(
        &ask(&executor, "alice", json!({"answer": 2})).await
    ));
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    assert_eq!(executor.cache_counts().hits, 1);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(!is_cached(
        &ask(&executor, "alice", json!({"answer": 1, "b": 2})).await
    ));
}

#[tokio::test(start_paused = true)]
async fn a_cached_result_is_not_for_other_principals_or_variants_nor_after_a_reload() {
    let (executor, runs) = answering(rule(CacheScope::Private), ToolOrigin::Native);
    let ask = async |executor: &Executor, principal: &str, variant: Option<&str>| {
        let context = CallContext {
            principal: Some(principal.to_owned()),
            variant: variant.map(str::to_owned),
            ..CallContext::for_user("alice")
        };
        let call = ToolCall::new("c", "answer", json!({"answer": 1}));
        is_cached(&executor.execute_one(call, &context).await)
    };
    assert!(!ask(&executor, "token:a", None).await);
    assert!(ask(&executor, "token:a", None).await);
    assert!(!ask(&executor, "token:b", None).await);
    assert!(!ask(&executor, "token:a", Some("another tenant")).await);
    let config = ExecutorConfig {
        cache: rule(CacheScope::Private),
        ..ExecutorConfig::default()
    };
    let next = executor.reconfigured(config, ExecutorHooks::default());
    assert!(!ask(&next, "token:a", None).await);
    assert_eq!(runs.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn l1_results_of_acting_tools_are_never_shared_between_users() {
    let (executor, runs) = answering_for(true, rule(CacheScope::Public), ToolOrigin::Native);
    let arguments = json!({"answer": 1});
    assert!(!is_cached(
        &ask(&executor, "alice", arguments.clone()).await
    ));
    assert!(is_cached(&ask(&executor, "alice", arguments.clone()).await));
    assert!(!is_cached(&ask(&executor, "bob", arguments.clone()).await));
    let denied = ask(&executor, "nobody", arguments).await;
    assert_eq!(denied.error_code, Some(ErrorCode::Denied));
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_for_input_is_not_cached() {
    let (executor, runs) = answering(rule(CacheScope::Public), ToolOrigin::Native);
    let question = json!({"answer": {"resultType": "input_required", "requestState": "alice's"}});
    for user in ["alice", "bob"] {
        assert!(!is_cached(&ask(&executor, user, question.clone()).await));
    }
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_public_result_is_shared_by_all_users() {
    let (executor, runs) = answering(rule(CacheScope::Public), ToolOrigin::Native);
    ask(&executor, "alice", json!({"answer": 1})).await;
    assert!(is_cached(
        &ask(&executor, "bob", json!({"answer": 1})).await
    ));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_not_cached() {
    let (executor, runs) = answering(rule(CacheScope::Public), ToolOrigin::Native);
    for _ in 0..2 {
        assert!(
            !ask(&executor, "alice", json!({"answer": "fail"}))
                .await
                .success
        );
    }
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!(executor.cache_counts().entries, 0);
}

#[tokio::test(start_paused = true)]
async fn concurrent_callers_share_one_call() {
    let (executor, runs) = answering(rule(CacheScope::Public), ToolOrigin::Native);
    let calls = (0..100).map(|_| ask(&executor, "alice", json!({"answer": 1})));
    let results = futures_util::future::join_all(calls).await;
    assert!(results.iter().all(|result| result.result == json!(1)));
    let cached = results.iter().filter(|result| is_cached(result)).count();
    assert_eq!((cached, runs.load(Ordering::SeqCst)), (99, 1));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_or_failed_call_does_not_affect_callers_that_wait_for_it() {
    let (executor, runs) = answering(rule(CacheScope::Public), ToolOrigin::Native);
    let leader = {
        let executor = executor.clone();
        tokio::spawn(async move { ask(&executor, "a", json!({"answer": 1})).await })
    };
    tokio::task::yield_now().await;
    let follower = {
        let executor = executor.clone();
        tokio::spawn(async move { ask(&executor, "b", json!({"answer": 1})).await })
    };
    tokio::time::sleep(Duration::from_millis(50)).await;
    leader.abort();
    assert!(follower.await.unwrap().success);
    assert_eq!(runs.load(Ordering::SeqCst), 2);

    // If the call that others wait for fails, each of the others runs itself.
    let calls = (0..3).map(|_| ask(&executor, "a", json!({"answer": "fail"})));
    for result in futures_util::future::join_all(calls).await {
        assert_eq!(result.error_code, Some(ErrorCode::InternalError));
    }
    assert_eq!(runs.load(Ordering::SeqCst), 5);
}

#[tokio::test(start_paused = true)]
async fn c2_a_caller_that_waits_for_a_shared_call_has_its_own_deadline() {
    let (executor, _) = answering(rule(CacheScope::Public), ToolOrigin::Native);
    let calls = (0..20).map(|_| ask(&executor, "a", json!({"answer": "fail"})));
    // Ten calls of 100 ms each do not exceed the one-second timeout of each call.
    let results = futures_util::future::join_all(calls).await;
    let timeouts = results
        .iter()
        .filter(|result| result.error_code == Some(ErrorCode::Timeout));
    assert!(timeouts.count() >= 9);
}

#[tokio::test(start_paused = true)]
async fn the_size_of_the_cache_is_limited() {
    let small = CacheConfig {
        max_entries: 2,
        max_bytes: 10_000,
        ..rule(CacheScope::Public)
    };
    let (executor, runs) = answering(small, ToolOrigin::Native);
    for answer in [1, 2, 1, 3] {
        ask(&executor, "a", json!({"answer": answer})).await;
    }
    assert_eq!(executor.cache_counts().entries, 2);
    // The least recently used result was removed.
    assert!(is_cached(&ask(&executor, "a", json!({"answer": 1})).await));
    assert!(!is_cached(&ask(&executor, "a", json!({"answer": 2})).await));
    assert_eq!(runs.load(Ordering::SeqCst), 4);
    let large = json!({"answer": "x".repeat(20_000)});
    ask(&executor, "a", large.clone()).await;
    assert!(!is_cached(&ask(&executor, "a", large).await));
    assert!(executor.cache_counts().bytes <= 10_000);
}

#[tokio::test(start_paused = true)]
async fn an_mcp_server_sets_the_ttl_of_its_result() {
    let far = || ToolOrigin::Mcp {
        server_label: "far".to_owned(),
        server_url: "http://far/mcp".to_owned(),
    };
    let (executor, _) = answering(CacheConfig::default(), far());
    let cases = [
        (json!({"content": []}), false, false),
        (json!({"content": [], "ttlMs": 5000}), true, false),
        (
            json!({"content": [], "ttlMs": 5000, "cacheScope": "public"}),
            true,
            true,
        ),
        (
            json!({"content": [], "ttlMs": 0, "cacheScope": "public"}),
            false,
            false,
        ),
        (json!({"ttlMs": -1}), false, false),
        (json!({"ttlMs": 1e300}), false, false),
        (json!({"ttlMs": "5000"}), false, false),
        (
            json!({"ttlMs": 5000, "resultType": "input_required"}),
            false,
            false,
        ),
    ];
    for (answer, private, public) in cases {
        let arguments = json!({"answer": answer});
        ask(&executor, "alice", arguments.clone()).await;
        let again = is_cached(&ask(&executor, "alice", arguments.clone()).await);
        assert_eq!(again, private, "{arguments}");
        let other = is_cached(&ask(&executor, "bob", arguments.clone()).await);
        assert_eq!(other, public, "{arguments}");
    }
    let deaf = CacheConfig {
        honor_servers: false,
        ..CacheConfig::default()
    };
    for (cache, origin) in [(deaf, far()), (CacheConfig::default(), ToolOrigin::Native)] {
        let (executor, _) = answering(cache, origin);
        let arguments = json!({"answer": {"ttlMs": 5000}});
        ask(&executor, "alice", arguments.clone()).await;
        assert!(!is_cached(&ask(&executor, "alice", arguments).await));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cached_result_has_its_remaining_ttl() {
    let far = ToolOrigin::Mcp {
        server_label: "far".to_owned(),
        server_url: "http://far/mcp".to_owned(),
    };
    let (executor, _) = answering(CacheConfig::default(), far);
    let arguments = json!({"answer": {"ttlMs": 5000}});
    ask(&executor, "alice", arguments.clone()).await;
    tokio::time::advance(Duration::from_secs(2)).await;
    let kept = ask(&executor, "alice", arguments).await;
    assert_eq!(kept.result["ttlMs"].as_u64(), Some(3000));
}
