use super::ToolSettings;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::tests::{add, assert_failure, call as run, call_for, definition};
use crate::tool::{
    ErrorCode, FnTool, JsonObject, ParameterType, Tool, ToolDefinition, ToolFailure, ToolFuture,
    ToolOutput, ToolParameter,
};

/// Returns the definition of a tool with these parameters of type number.
fn with_numbers(name: &str, parameters: &[&str]) -> ToolDefinition {
    let numbers = parameters
        .iter()
        .map(|name| ToolParameter::new(*name, ParameterType::Number));
    let builder = ToolDefinition::builder(name, "A test");
    let defined = numbers.fold(builder, |builder, number| builder.parameter(number));
    defined.build().unwrap()
}

/// Returns a registry with the tools `add(a, b)`, `fail()`, `panic()`, `sleep(ms)` and `who()`.
pub(super) fn registry() -> Arc<ToolRegistry> {
    let registry = ToolRegistry::new();
    let adder = with_numbers("add", &["a", "b"]);
    add(&registry, adder, |arguments, _| async move {
        let sum = arguments["a"].as_i64().unwrap() + arguments["b"].as_i64().unwrap();
        Ok(ToolOutput::value(json!(sum)))
    });
    add(&registry, definition("fail"), |_, _| async {
        Err(ToolFailure::internal("division by zero"))
    });
    add(&registry, definition("panic"), |_, _| async {
        panic!("with a secret inside")
    });
    let sleep = with_numbers("sleep", &["ms"]);
    add(&registry, sleep, |arguments, _| async move {
        let pause = arguments["ms"].as_u64().unwrap();
        tokio::time::sleep(Duration::from_millis(pause)).await;
        Ok(ToolOutput::value(json!(pause)))
    });
    let who = definition("who");
    add(&registry, who, |_, context: CallContext| async move {
        Ok(ToolOutput::value(json!([context.user, context.call_id])))
    });
    Arc::new(registry)
}

/// Returns an executor with one tool without parameters.
fn executor_of<F, Fut>(name: &str, config: ExecutorConfig, function: F) -> Executor
where
    F: Fn(JsonObject, CallContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ToolFailure>> + Send + 'static,
{
    let registry = ToolRegistry::new();
    add(&registry, definition(name), function);
    Executor::new(Arc::new(registry), config)
}

/// Returns a configuration that allows every tool this many calls per minute.
fn per_minute(calls: u32) -> ExecutorConfig {
    let mut config = ExecutorConfig::default();
    config.rate_limits.default.per_minute = Some(calls);
    config
}

pub(super) fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    ToolCall::new(id, name, arguments)
}

async fn run_one(config: ExecutorConfig, name: &str, arguments: Value) -> ToolResult {
    let executor = Executor::new(registry(), config);
    let context = CallContext::for_user("u");
    // Boxed, because the configuration makes the future large.
    Box::pin(run(&executor, name, arguments, &context)).await
}

/// A model's arguments arrive as text, so the limit on the values of a model's response does not
/// count them.
#[tokio::test]
async fn arguments_with_too_many_values_are_an_error_before_they_are_parsed() {
    for value in ["0", "[]", "[0]", "{}", r#"{"":0}"#] {
        let many = vec![value; 1_000_000].join(",");
        let arguments = json!(format!(r#"{{"a":1,"b":2,"c":[{many}]}}"#));
        let result = run_one(ExecutorConfig::default(), "add", arguments.clone()).await;
        assert_eq!(result.error_code, Some(ErrorCode::InvalidInput));
        let error = result.error.unwrap_or_default();
        assert!(error.ends_with("more than 1000000 JSON values"), "{error}");
        // In the conversation, the arguments stay a text.
        let call = call("c", "add", arguments.clone());
        let expected = json!({ "INVALID_JSON": arguments });
        assert_eq!(call.arguments_object(), expected);
    }
    // A long text within the limit is parsed on another thread.
    let arguments = format!(r#"{{"a":1,"b":2,"c":[{}0]}}"#, "0,".repeat(100_000));
    let result = run_one(ExecutorConfig::default(), "add", json!(arguments)).await;
    assert_eq!(result.result, json!(3), "{:?}", result.error);
}

#[tokio::test]
async fn l1_tools_of_a_caller_are_only_for_that_caller() {
    let executor = Executor::new(registry(), ExecutorConfig::default());
    let own = |name: &str| {
        let tool = FnTool::new(definition(name), |_, _| async {
            Ok(ToolOutput::text("my own"))
        });
        let registered = RegisteredTool::new(Arc::new(tool)).unwrap();
        (registered.name().clone(), Arc::new(registered))
    };
    let tools = CallerOnlyTools::from_iter([own("mine"), own("who")]);
    let of_caller = executor.with_caller_tools(Arc::new(tools));
    let mine = call_for(&of_caller, "alice", "mine").await;
    assert_eq!(mine.result, json!("my own"));
    // A registered tool takes precedence over a tool of the caller.
    let who = call_for(&of_caller, "alice", "who").await;
    assert_eq!(who.result, json!(["alice", "c"]));
    let others = call_for(&executor, "alice", "mine").await;
    assert_eq!(others.error_code, Some(ErrorCode::NotFound));
}

#[tokio::test]
async fn g3_an_override_runs_under_the_limits_and_rules_of_its_tool() {
    let mut config = ExecutorConfig::default();
    let windows = RateWindows {
        per_minute: Some(1),
        ..RateWindows::default()
    };
    config.rate_limits.tools.insert("add".to_owned(), windows);
    let executor = Executor::new(registry(), config);
    let add = executor.find("add").unwrap();
    let tool = FnTool::new(add.definition().clone(), |_, _| async {
        Ok(ToolOutput::text("may run"))
    });
    let registered = RegisteredTool::new(Arc::new(tool)).unwrap();
    let tools = CallerOnlyTools::from_iter([(add.name().clone(), Arc::new(registered))]);
    let overriding = executor.with_overrides(Arc::new(tools));
    let context = CallContext::for_user("alice");
    // The arguments are validated against the registered tool's schema.
    let wrong = run(&overriding, "add", json!({"a": 1}), &context).await;
    assert_eq!(wrong.error_code, Some(ErrorCode::InvalidInput));
    let sum = json!({"a": 1, "b": 1});
    let result = run(&overriding, "add", sum.clone(), &context).await;
    assert_eq!(result.result, json!("may run"));
    // Both executors share one rate limit.
    let limited = run(&executor, "add", sum, &context).await;
    assert_eq!(limited.error_code, Some(ErrorCode::RateLimited));
    // A repaired name refers to the override as well.
    let found = |name: &str| overriding.find(name).map(|tool| Arc::as_ptr(&tool));
    assert_eq!(found("functions.add"), found("add"));
    let who = call_for(&overriding, "alice", "who").await;
    assert_eq!(who.result, json!(["alice", "c"]));
}

#[tokio::test]
async fn c1_one_failure_never_affects_siblings() {
    let executor = Executor::new(registry(), ExecutorConfig::default());
    let calls = || {
        vec![
            call("1", "add", json!({"a": 1, "b": 1})),
            call("2", "fail", json!({})),
            call("3", "panic", json!({})),
            call("4", "nope", json!({})),
            call("5", "add", json!({"a": 2, "b": 2})),
        ]
    };
    let context = CallContext::default();
    for results in [
        executor.execute(calls(), &context).await,
        executor.execute_parallel(calls(), &context).await,
    ] {
        let successes: Vec<_> = results.iter().map(|result| result.success).collect();
        assert_eq!(successes, [true, false, false, false, true]);
        let ids: Vec<_> = results.iter().map(|r| r.tool_call_id.as_str()).collect();
        assert_eq!(ids, ["1", "2", "3", "4", "5"]);
        assert_eq!(results[2].error_code, Some(ErrorCode::InternalError));
        assert!(!results[2].error.as_ref().unwrap().contains("secret"));
    }
}

#[tokio::test(start_paused = true)]
async fn c1_parallel_keeps_order_and_runs_at_most_n_at_once() {
    let running = Arc::new(AtomicUsize::new(0));
    let max_running = Arc::new(AtomicUsize::new(0));
    let (r, m) = (Arc::clone(&running), Arc::clone(&max_running));
    let registry = ToolRegistry::new();
    let track = with_numbers("track", &["ms"]);
    add(&registry, track, move |arguments, _| {
        let (running, max_running) = (Arc::clone(&r), Arc::clone(&m));
        async move {
            max_running.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(arguments["ms"].as_u64().unwrap())).await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(ToolOutput::value(arguments["ms"].clone()))
        }
    });
    let config = ExecutorConfig {
        max_concurrent: NonZeroUsize::new(3).unwrap(),
        ..ExecutorConfig::default()
    };
    let executor = Executor::new(Arc::new(registry), config);
    let calls = (0..20u64)
        .map(|n| call(&n.to_string(), "track", json!({"ms": 100 - n})))
        .collect();
    let context = CallContext::default();
    let results = executor.execute_parallel(calls, &context).await;
    assert_eq!(max_running.load(Ordering::SeqCst), 3);
    for (n, result) in (0..20u64).zip(&results) {
        assert_eq!(result.result, json!(100 - n));
    }
}

#[tokio::test]
async fn c1_a_tool_that_holds_the_only_permit_may_make_calls() {
    let executor: Arc<std::sync::OnceLock<Executor>> = Arc::default();
    let registry = registry();
    let own = Arc::clone(&executor);
    let outer = definition("outer");
    add(&registry, outer, move |_, context: CallContext| {
        let own = own.get().unwrap().with_separate_permits();
        async move {
            let calls = ["a", "b"].map(|id| call(id, "who", json!({})));
            let results = own.execute_parallel(calls.into(), &context).await;
            let successes = results.iter().filter(|result| result.success).count();
            Ok(ToolOutput::value(json!(successes)))
        }
    });
    let config = ExecutorConfig {
        max_concurrent: NonZeroUsize::MIN,
        ..ExecutorConfig::default()
    };
    let executor = executor.get_or_init(|| Executor::new(registry, config));
    let result = call_for(executor, "u", "outer").await;
    assert_eq!(result.result, json!(2));
    assert_eq!(executor.load(), QueueLoad::default());
}

#[tokio::test]
async fn c1_the_context_gains_the_call_id() {
    let result = run_one(ExecutorConfig::default(), "who", json!({})).await;
    assert_eq!(result.result, json!(["u", "c"]));
}

#[tokio::test(start_paused = true)]
async fn c2_a_timeout_of_a_servers_tool_names_the_server() {
    struct Remote(ToolDefinition);
    impl Tool for Remote {
        fn definition(&self) -> &ToolDefinition {
            &self.0
        }
        fn origin(&self) -> crate::tool::ToolOrigin {
            crate::tool::ToolOrigin::Mcp {
                server_label: "dice".to_owned(),
                server_url: String::new(),
            }
        }
        fn call(self: Arc<Self>, _: JsonObject, _: CallContext) -> ToolFuture {
            Box::pin(std::future::pending())
        }
    }
    let registry = registry();
    let tool = Remote(definition("dice_roll"));
    registry.register(Arc::new(tool)).unwrap();
    let executor = Executor::new(registry, ExecutorConfig::default());
    let result = call_for(&executor, "u", "dice_roll").await;
    let text = "Tool 'dice_roll' of server 'dice' timed out after 30.0s";
    assert_eq!(result.error.as_deref(), Some(text));
}

#[tokio::test(start_paused = true)]
async fn c2_a_slow_tool_times_out_with_its_name_and_time_limit() {
    let config = |seconds| ExecutorConfig {
        timeout: Duration::from_secs_f64(seconds),
        ..ExecutorConfig::default()
    };
    for (config, ms, after) in [
        (config(1.0), 3_000, "1.0s"),
        (config(0.5), 3_000, "0.5s"),
        (ExecutorConfig::default(), 30_001, "30.0s"),
    ] {
        let result = run_one(config, "sleep", json!({"ms": ms})).await;
        let message = format!("Tool 'sleep' timed out after {after}");
        assert_failure(&result, ErrorCode::Timeout, &message);
    }
    let result = run_one(ExecutorConfig::default(), "sleep", json!({"ms": 29_999})).await;
    assert!(result.success);
    let other = ExecutorConfig {
        tool_timeouts: [("sleep".to_owned(), Duration::from_secs(9))].into(),
        ..config(1.0)
    };
    assert!(run_one(other, "sleep", json!({"ms": 3000})).await.success);
}

/// A tool that never ends, with a time limit of 50 ms.
struct Endless(ToolDefinition);

impl Tool for Endless {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(Duration::from_millis(50))
    }

    fn call(self: Arc<Self>, _arguments: JsonObject, _context: CallContext) -> ToolFuture {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn n1_only_the_executors_limit_for_a_tool_extends_the_tools_own_limit() {
    let one = |seconds| [("endless".to_owned(), Duration::from_secs_f64(seconds))].into();
    let cases = [
        (30.0, ToolSettings::default(), "0.05s"),
        (0.02, ToolSettings::default(), "0.02s"),
        (30.0, one(0.1), "0.1s"),
    ];
    for (seconds, tool_timeouts, after) in cases {
        let registry = ToolRegistry::new();
        let tool = Endless(definition("endless"));
        registry.register(Arc::new(tool)).unwrap();
        let config = ExecutorConfig {
            timeout: Duration::from_secs_f64(seconds),
            tool_timeouts,
            ..ExecutorConfig::default()
        };
        let executor = Executor::new(Arc::new(registry), config);
        let error = call_for(&executor, "u", "endless").await.error.unwrap();
        let end = format!("timed out after {after}");
        assert!(error.ends_with(&end), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_a_tool_that_blocks_its_thread_does_not_block_the_caller() {
    let config = ExecutorConfig {
        timeout: Duration::from_millis(100),
        ..ExecutorConfig::default()
    };
    let executor = executor_of("block", config, |_, _| async {
        std::thread::sleep(Duration::from_secs(2));
        Ok(ToolOutput::text("late"))
    });
    let started = std::time::Instant::now();
    let result = call_for(&executor, "u", "block").await;
    assert_eq!(result.error_code, Some(ErrorCode::Timeout));
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn c3_invalid_arguments_never_reach_the_tool() {
    for (arguments, message) in [
        (json!({"a": 1}), "Missing required parameter: b"),
        (
            json!({"a": "1", "b": 2}),
            "Invalid type for a: expected number",
        ),
    ] {
        let result = run_one(ExecutorConfig::default(), "add", arguments).await;
        assert_failure(&result, ErrorCode::InvalidInput, message);
    }
}

#[tokio::test]
async fn a6_arguments_come_as_an_object_or_as_a_string() {
    let run = |arguments| run_one(ExecutorConfig::default(), "add", arguments);
    assert_eq!(run(json!(r#"{"a": 2, "b": 3}"#)).await.result, json!(5));
    let deep = json!(format!("{}{}", "[".repeat(10_000), "]".repeat(10_000)));
    for bad in [json!("{bad"), json!("[1]"), json!(7), json!([1]), deep] {
        let result = run(bad.clone()).await;
        assert_eq!(result.error_code, Some(ErrorCode::InvalidInput), "{bad}");
    }
    for empty in [
        json!(null),
        json!(""),
        json!([]),
        json!("{}"),
        json!("null"),
    ] {
        let result = run_one(ExecutorConfig::default(), "who", empty.clone()).await;
        assert!(result.success, "{empty}");
    }
}

#[tokio::test]
async fn c4_c5_a_failure_has_its_message_code_and_execution_time() {
    let result = run_one(ExecutorConfig::default(), "fail", json!({})).await;
    assert_failure(&result, ErrorCode::InternalError, "division by zero");
    assert!(result.metadata["execution_time"].is_f64());
}

#[tokio::test]
async fn b5_a_name_that_no_tool_has_may_be_repaired() {
    let registry = registry();
    registry.set_alias("functions.who", "add").unwrap();
    let executor = Executor::new(registry, ExecutorConfig::default());
    let found = |name: &str| executor.find(name).map(|tool| tool.name().to_string());
    for name in [
        " add\n",
        "functions.add",
        "default_api.add",
        "default_api:add",
        "add<|channel|>commentary",
        " functions.add <|end|>",
        // A tool with exactly this name takes precedence over a repaired name.
        "functions.who",
        "functions.who<|end|>",
    ] {
        assert_eq!(found(name).as_deref(), Some("add"), "{name:?}");
    }
    for name in [
        "functions.",
        "functions.nope",
        "<|add",
        "other.add",
        "ADD",
        "",
    ] {
        assert_eq!(found(name), None, "{name:?}");
    }
}

#[tokio::test]
async fn b5_the_error_for_an_unknown_tool_names_it() {
    let result = run_one(ExecutorConfig::default(), "nope", json!({})).await;
    assert_failure(&result, ErrorCode::NotFound, "Unknown tool: nope");
}

#[tokio::test(start_paused = true)]
async fn c6_a_cooldown_holds_per_user_and_tool() {
    let registry = ToolRegistry::new();
    for name in ["one", "two"] {
        let builder = ToolDefinition::builder(name, "A test").cooldown(Duration::from_secs(5));
        add(&registry, builder.build().unwrap(), |_, _| async {
            Ok(ToolOutput::text("ok"))
        });
    }
    let executor = Executor::new(Arc::new(registry), ExecutorConfig::default());
    assert!(call_for(&executor, "alice", "one").await.success);
    let rejected = call_for(&executor, "alice", "one").await;
    let message = "Tool 'one' is cooling down. Retry after 5 seconds.";
    assert_failure(&rejected, ErrorCode::RateLimited, message);
    assert_eq!(rejected.metadata["retry_after"], json!(5));
    assert!(call_for(&executor, "alice", "two").await.success);
    assert!(call_for(&executor, "bob", "one").await.success);
    tokio::time::advance(Duration::from_secs(5)).await;
    assert!(call_for(&executor, "alice", "one").await.success);
}

#[tokio::test]
async fn c7_a_limit_of_zero_rejects_every_call() {
    let result = run_one(per_minute(0), "who", json!({})).await;
    assert_eq!(result.error_code, Some(ErrorCode::RateLimited));
}

#[tokio::test(start_paused = true)]
async fn c7_rate_limits_hold_in_any_window() {
    let mut config = ExecutorConfig::default();
    config.rate_limits.default = RateWindows {
        per_minute: Some(10),
        per_hour: Some(15),
        per_day: Some(500),
    };
    let executor = Executor::new(registry(), config);
    for _ in 0..10 {
        assert!(call_for(&executor, "alice", "who").await.success);
    }
    let rejected = call_for(&executor, "alice", "who").await;
    let message = "Rate limit exceeded (per-minute). Retry after 60 seconds.";
    assert_failure(&rejected, ErrorCode::RateLimited, message);
    assert_eq!(rejected.metadata["retry_after"], json!(60));
    assert!(call_for(&executor, "bob", "who").await.success);
    tokio::time::advance(Duration::from_secs(60)).await;
    for _ in 0..5 {
        assert!(call_for(&executor, "alice", "who").await.success);
    }
    let rejected = call_for(&executor, "alice", "who").await;
    let message = "Rate limit exceeded (per-hour). Retry after 3540 seconds.";
    assert_failure(&rejected, ErrorCode::RateLimited, message);
}

#[tokio::test]
async fn an_output_over_the_limit_is_an_error_and_not_truncated() {
    let config = ExecutorConfig {
        max_output_bytes: 1000,
        ..ExecutorConfig::default()
    };
    let executor = executor_of("big", config, |_, _| async {
        Ok(ToolOutput::text("x".repeat(2000)))
    });
    let result = call_for(&executor, "u", "big").await;
    let message = "Tool 'big' returned 2002 bytes; the limit is 1000";
    assert_failure(&result, ErrorCode::InternalError, message);
}

#[tokio::test(start_paused = true)]
async fn c7_counts_survive_a_change_of_the_limits() {
    let first = Executor::new(registry(), per_minute(2));
    for _ in 0..2 {
        assert!(call_for(&first, "alice", "who").await.success);
    }
    let second = first.reconfigured(per_minute(3), ExecutorHooks::default());
    assert!(call_for(&second, "alice", "who").await.success);
    let rejected = call_for(&second, "alice", "who").await;
    assert_eq!(rejected.error_code, Some(ErrorCode::RateLimited));
}
