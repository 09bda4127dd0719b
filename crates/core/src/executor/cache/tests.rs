use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::executor::{
    CacheConfig, CacheRule, CacheScope, Executor, ExecutorConfig, ExecutorHooks,
};
use crate::registry::ToolRegistry;
use crate::tests::{call, definition};
use crate::tool::{
    ActingIdentity, ActingIdentityFuture, CallContext, ErrorCode, JsonObject, Tool, ToolDefinition,
    ToolFailure, ToolFuture, ToolOrigin, ToolOutput, ToolResult,
};

/// Returns the argument `output` after 100 ms, or fails if that is "fail"; counts its runs.
struct OutputTool {
    definition: ToolDefinition,
    origin: ToolOrigin,
    runs: Arc<AtomicUsize>,
    /// Whether the tool acts for its users; "anonymous" has no acting identity.
    acts_for_users: bool,
}

impl Tool for OutputTool {
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
                    "anonymous" => Err(ToolFailure::new(ErrorCode::Denied, "no credential")),
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
            match arguments.get("output").cloned().unwrap_or_default() {
                Value::String(text) if text == "fail" => Err(ToolFailure::internal("no")),
                output => Ok(ToolOutput::value(output)),
            }
        })
    }
}

/// Returns an executor with a local tool, and the counter of its runs.
fn with_scope(scope: CacheScope) -> (Executor, Arc<AtomicUsize>) {
    with_tool(false, rule(scope), ToolOrigin::Native)
}

/// Returns an executor with a tool of an MCP server.
fn with_server(cache: CacheConfig) -> Executor {
    let origin = ToolOrigin::Mcp {
        server_label: "far".to_owned(),
        server_url: "http://far/mcp".to_owned(),
    };
    with_tool(false, cache, origin).0
}

fn with_tool(
    acts_for_users: bool,
    cache: CacheConfig,
    origin: ToolOrigin,
) -> (Executor, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let tool = OutputTool {
        definition: definition("tell"),
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
        tools: [("tell".to_owned(), CacheRule { ttl, scope })].into(),
        ..CacheConfig::default()
    }
}

async fn ask(executor: &Executor, user: &str, arguments: Value) -> ToolResult {
    call(executor, "tell", arguments, &CallContext::for_user(user)).await
}

/// Calls the tool, and returns whether the result was cached.
async fn ask_cached(executor: &Executor, user: &str, arguments: Value) -> bool {
    is_cached(&ask(executor, user, arguments).await)
}

fn is_cached(result: &ToolResult) -> bool {
    result.metadata.get("cached") == Some(&json!(true))
}

#[tokio::test(start_paused = true)]
async fn a_result_is_cached_for_its_user_until_its_ttl_ends() {
    let (executor, runs) = with_scope(CacheScope::Private);
    let first = ask(&executor, "alice", json!({"output": 1, "b": 2})).await;
    assert!(first.success && !is_cached(&first));
    // The order of the arguments does not matter.
    let second = ask(&executor, "alice", json!({"b": 2, "output": 1})).await;
    assert!(is_cached(&second), "{second:?}");
    assert_eq!(second.result, first.result);
    assert!(!ask_cached(&executor, "bob", json!({"output": 1, "b": 2})).await);
    assert!(!ask_cached(&executor, "alice", json!({"output": 2})).await);
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    assert_eq!(executor.cache_counts().hits, 1);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(!ask_cached(&executor, "alice", json!({"output": 1, "b": 2})).await);
}

#[tokio::test(start_paused = true)]
async fn a_cached_result_is_not_for_other_principals_or_variants_nor_after_a_reload() {
    let (executor, runs) = with_scope(CacheScope::Private);
    let ask = async |executor: &Executor, principal: &str, variant: Option<&str>| {
        let context = CallContext {
            principal: Some(principal.to_owned()),
            variant: variant.map(str::to_owned),
            ..CallContext::for_user("alice")
        };
        is_cached(&call(executor, "tell", json!({"output": 1}), &context).await)
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
    let (executor, runs) = with_tool(true, rule(CacheScope::Public), ToolOrigin::Native);
    let arguments = json!({"output": 1});
    assert!(!ask_cached(&executor, "alice", arguments.clone()).await);
    assert!(ask_cached(&executor, "alice", arguments.clone()).await);
    assert!(!ask_cached(&executor, "bob", arguments.clone()).await);
    let denied = ask(&executor, "anonymous", arguments).await;
    assert_eq!(denied.error_code, Some(ErrorCode::Denied));
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_for_input_is_not_cached() {
    let (executor, runs) = with_scope(CacheScope::Public);
    let question = json!({"output": {"resultType": "input_required", "requestState": "alice's"}});
    for user in ["alice", "bob"] {
        assert!(!ask_cached(&executor, user, question.clone()).await);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_public_result_is_shared_by_all_users() {
    let (executor, runs) = with_scope(CacheScope::Public);
    ask(&executor, "alice", json!({"output": 1})).await;
    assert!(ask_cached(&executor, "bob", json!({"output": 1})).await);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_not_cached() {
    let (executor, runs) = with_scope(CacheScope::Public);
    for _ in 0..2 {
        let result = ask(&executor, "alice", json!({"output": "fail"})).await;
        assert!(!result.success);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!(executor.cache_counts().entries, 0);
}

#[tokio::test(start_paused = true)]
async fn concurrent_callers_share_one_call() {
    let (executor, runs) = with_scope(CacheScope::Public);
    let calls = (0..100).map(|_| ask(&executor, "alice", json!({"output": 1})));
    let results = futures_util::future::join_all(calls).await;
    assert!(results.iter().all(|result| result.result == json!(1)));
    let cached = results.iter().filter(|result| is_cached(result)).count();
    assert_eq!((cached, runs.load(Ordering::SeqCst)), (99, 1));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_or_failed_call_does_not_affect_callers_that_wait_for_it() {
    let (executor, runs) = with_scope(CacheScope::Public);
    let spawn_call = |user: &'static str| {
        let executor = executor.clone();
        tokio::spawn(async move { ask(&executor, user, json!({"output": 1})).await })
    };
    let leader = spawn_call("a");
    tokio::task::yield_now().await;
    let follower = spawn_call("b");
    tokio::time::sleep(Duration::from_millis(50)).await;
    leader.abort();
    assert!(follower.await.unwrap().success);
    assert_eq!(runs.load(Ordering::SeqCst), 2);

    // If the call for which other calls wait fails, each of the waiting calls runs its tool itself.
    let calls = (0..3).map(|_| ask(&executor, "a", json!({"output": "fail"})));
    for result in futures_util::future::join_all(calls).await {
        assert_eq!(result.error_code, Some(ErrorCode::InternalError));
    }
    assert_eq!(runs.load(Ordering::SeqCst), 5);
}

#[tokio::test(start_paused = true)]
async fn c2_a_caller_that_waits_for_a_shared_call_has_its_own_deadline() {
    let (executor, _) = with_scope(CacheScope::Public);
    let calls = (0..20).map(|_| ask(&executor, "a", json!({"output": "fail"})));
    // Ten calls of 100 ms each do not exceed the one-second timeout of each call.
    let results = futures_util::future::join_all(calls).await;
    let is_timeout = |result: &&ToolResult| result.error_code == Some(ErrorCode::Timeout);
    assert!(results.iter().filter(is_timeout).count() >= 9);
}

#[tokio::test(start_paused = true)]
async fn the_size_of_the_cache_is_limited() {
    let small = CacheConfig {
        max_entries: 2,
        max_bytes: 10_000,
        ..rule(CacheScope::Public)
    };
    let (executor, runs) = with_tool(false, small, ToolOrigin::Native);
    for output in [1, 2, 1, 3] {
        ask(&executor, "a", json!({"output": output})).await;
    }
    assert_eq!(executor.cache_counts().entries, 2);
    // The least recently used result was removed.
    assert!(ask_cached(&executor, "a", json!({"output": 1})).await);
    assert!(!ask_cached(&executor, "a", json!({"output": 2})).await);
    assert_eq!(runs.load(Ordering::SeqCst), 4);
    let large = json!({"output": "x".repeat(20_000)});
    ask(&executor, "a", large.clone()).await;
    assert!(!ask_cached(&executor, "a", large).await);
    assert!(executor.cache_counts().bytes <= 10_000);
}

#[tokio::test(start_paused = true)]
async fn an_mcp_server_sets_the_ttl_of_its_result() {
    let executor = with_server(CacheConfig::default());
    let public = |ttl: u32| json!({"content": [], "ttlMs": ttl, "cacheScope": "public"});
    let question = json!({"ttlMs": 5000, "resultType": "input_required"});
    let cases = [
        (json!({"content": []}), false, false),
        (json!({"content": [], "ttlMs": 5000}), true, false),
        (public(5000), true, true),
        (public(0), false, false),
        (json!({"ttlMs": -1}), false, false),
        (json!({"ttlMs": 1e300}), false, false),
        (json!({"ttlMs": "5000"}), false, false),
        (question, false, false),
    ];
    for (output, private, public) in cases {
        let arguments = json!({"output": output});
        ask(&executor, "alice", arguments.clone()).await;
        let again = ask_cached(&executor, "alice", arguments.clone()).await;
        assert_eq!(again, private, "{arguments}");
        let other = ask_cached(&executor, "bob", arguments.clone()).await;
        assert_eq!(other, public, "{arguments}");
    }
    let without_servers = CacheConfig {
        honor_servers: false,
        ..CacheConfig::default()
    };
    let (local, _) = with_tool(false, CacheConfig::default(), ToolOrigin::Native);
    for executor in [with_server(without_servers), local] {
        let arguments = json!({"output": {"ttlMs": 5000}});
        ask(&executor, "alice", arguments.clone()).await;
        assert!(!ask_cached(&executor, "alice", arguments).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cached_result_has_its_remaining_ttl() {
    let executor = with_server(CacheConfig::default());
    let arguments = json!({"output": {"ttlMs": 5000}});
    ask(&executor, "alice", arguments.clone()).await;
    tokio::time::advance(Duration::from_secs(2)).await;
    let cached = ask(&executor, "alice", arguments).await;
    assert_eq!(cached.result["ttlMs"].as_u64(), Some(3000));
}
