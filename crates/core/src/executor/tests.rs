use super::ToolSettings;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::tool::{
    ErrorCode, FnTool, JsonObject, ParameterType, Tool, ToolDefinition, ToolDefinitionBuilder,
    ToolFailure, ToolFuture, ToolOutput, ToolParameter,
};

fn define(name: &str) -> ToolDefinitionBuilder {
    ToolDefinition::builder(name, format!("The tool {name}"))
}

/// `add(a, b)`, `fail()`, `panic()`, `sleep(ms)`, `who()`.
pub(super) fn registry() -> Arc<ToolRegistry> {
    let registry = ToolRegistry::new();
    let number = |name: &str| ToolParameter::new(name, ParameterType::Number);
    let add = define("add").parameter(number("a")).parameter(number("b"));
    let sleep = define("sleep").parameter(number("ms"));
    let tools: [Arc<dyn Tool>; 5] = [
        Arc::new(FnTool::new(
            add.build().unwrap(),
            |arguments, _| async move {
                let sum = arguments["a"].as_i64().unwrap() + arguments["b"].as_i64().unwrap();
                Ok(ToolOutput::value(json!(sum)))
            },
        )),
        Arc::new(FnTool::new(define("fail").build().unwrap(), |_, _| async {
            Err(ToolFailure::internal("division by zero"))
        })),
        Arc::new(FnTool::new(
            define("panic").build().unwrap(),
            |_, _| async { panic!("with a secret inside") },
        )),
        Arc::new(FnTool::new(
            sleep.build().unwrap(),
            |arguments, _| async move {
                let pause = arguments["ms"].as_u64().unwrap();
                tokio::time::sleep(Duration::from_millis(pause)).await;
                Ok(ToolOutput::value(json!(pause)))
            },
        )),
        Arc::new(FnTool::new(
            define("who").build().unwrap(),
            |_, context| async move { Ok(ToolOutput::value(json!([context.user, context.call_id]))) },
        )),
    ];
    for tool in tools {
        registry.register(tool).unwrap();
    }
    Arc::new(registry)
}

pub(super) fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    ToolCall::new(id, name, arguments)
}

async fn run_one(config: ExecutorConfig, name: &str, arguments: Value) -> ToolResult {
    let executor = Executor::new(registry(), config);
    let context = CallContext::for_user("u");
    // Boxed, because the configuration makes the future large.
    Box::pin(executor.execute_one(call("c", name, arguments), &context)).await
}

/// Arguments of a model are a text, which no limit of the values of the model's answer counts.
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
        assert_eq!(
            call.arguments_object(),
            json!({ "INVALID_JSON": arguments })
        );
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
        let tool = FnTool::new(define(name).build().unwrap(), |_, _| async {
            Ok(ToolOutput::text("my own"))
        });
        let tool = RegisteredTool::new(Arc::new(tool)).unwrap();
        (tool.name().clone(), Arc::new(tool))
    };
    let tools = CallerOnlyTools::from_iter([own("mine"), own("who")]);
    let of_caller = executor.with_caller_tools(Arc::new(tools));
    let context = CallContext::for_user("alice");
    let run = async |executor: &Executor, name: &str| {
        let call = call("c", name, json!({}));
        executor.execute_one(call, &context).await
    };
    assert_eq!(run(&of_caller, "mine").await.result, json!("my own"));
    // A registered tool takes precedence.
    assert_eq!(run(&of_caller, "who").await.result, json!(["alice", "c"]));
    let others = run(&executor, "mine").await;
    assert_eq!(others.error_code, Some(ErrorCode::NotFound));
}

#[tokio::test]
async fn g3_an_override_runs_under_the_limits_and_rules_of_its_tool() {
    let mut config = ExecutorConfig::default();
    let limits = &mut config.rate_limits;
    limits.tools.insert(
        "add".to_owned(),
        RateWindows {
            per_minute: Some(1),
            ..RateWindows::default()
        },
    );
    let executor = Executor::new(registry(), config);
    let add = executor.find("add").unwrap();
    let stand_in = FnTool::new(add.definition().clone(), |_, _| async {
        Ok(ToolOutput::text("may run"))
    });
    let stand_in = RegisteredTool::new(Arc::new(stand_in)).unwrap();
    let tools = CallerOnlyTools::from_iter([(add.name().clone(), Arc::new(stand_in))]);
    let standing_in = executor.with_overrides(Arc::new(tools));
    let context = CallContext::for_user("alice");
    let add = |arguments: Value| call("c", "add", arguments);
    // The arguments are validated against the registered tool's schema.
    let wrong = standing_in
        .execute_one(add(json!({"a": 1})), &context)
        .await;
    assert_eq!(wrong.error_code, Some(ErrorCode::InvalidInput));
    let sum = json!({"a": 1, "b": 1});
    let run = standing_in.execute_one(add(sum.clone()), &context).await;
    assert_eq!(run.result, json!("may run"));
    // Both executors share one rate limit.
    let run = executor.execute_one(add(sum), &context).await;
    assert_eq!(run.error_code, Some(ErrorCode::RateLimited));
    // A repaired name means the override as well.
    assert_eq!(
        standing_in
            .find("functions.add")
            .map(|tool| Arc::as_ptr(&tool)),
        standing_in.find("add").map(|tool| Arc::as_ptr(&tool)),
    );
    let who = standing_in
        .execute_one(call("c", "who", json!({})), &context)
        .await;
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
    let most = Arc::new(AtomicUsize::new(0));
    let (r, m) = (Arc::clone(&running), Arc::clone(&most));
    let registry = ToolRegistry::new();
    let definition = define("track")
        .parameter(ToolParameter::new("ms", ParameterType::Integer))
        .build()
        .unwrap();
    let track = FnTool::new(definition, move |arguments, _| {
        let (running, most) = (Arc::clone(&r), Arc::clone(&m));
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(arguments["ms"].as_u64().unwrap())).await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(ToolOutput::value(arguments["ms"].clone()))
        }
    });
    registry.register(Arc::new(track)).unwrap();
    let config = ExecutorConfig {
        max_concurrent: NonZeroUsize::new(3).unwrap(),
        ..ExecutorConfig::default()
    };
    let executor = Executor::new(Arc::new(registry), config);
    let calls = (0..20u64)
        .map(|n| call(&n.to_string(), "track", json!({"ms": 100 - n})))
        .collect();
    let results = executor
        .execute_parallel(calls, &CallContext::default())
        .await;
    assert_eq!(most.load(Ordering::SeqCst), 3);
    for (n, result) in (0..20u64).zip(&results) {
        assert_eq!(result.result, json!(100 - n));
    }
}

#[tokio::test]
async fn c1_a_tool_that_holds_the_only_permit_may_make_calls() {
    let executor: Arc<std::sync::OnceLock<Executor>> = Arc::default();
    let registry = registry();
    let own = Arc::clone(&executor);
    let outer = FnTool::new(define("outer").build().unwrap(), move |_, context| {
        let own = own.get().unwrap().with_separate_permits();
        async move {
            let calls = ["a", "b"].map(|id| call(id, "who", json!({})));
            let results = own.execute_parallel(calls.into(), &context).await;
            Ok(ToolOutput::value(json!(
                results.iter().filter(|result| result.success).count()
            )))
        }
    });
    registry.register(Arc::new(outer)).unwrap();
    let config = ExecutorConfig {
        max_concurrent: NonZeroUsize::MIN,
        ..ExecutorConfig::default()
    };
    let executor = executor.get_or_init(|| Executor::new(registry, config));
    let outer = call("c", "outer", json!({}));
    let result = executor.execute_one(outer, &CallContext::default()).await;
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
    let tool = Remote(define("dice_roll").build().unwrap());
    registry.register(Arc::new(tool)).unwrap();
    let executor = Executor::new(registry, ExecutorConfig::default());
    let call = call("c", "dice_roll", json!({}));
    let result = executor.execute_one(call, &CallContext::default()).await;
    let text = "Tool 'dice_roll' of server 'dice' timed out after 30.0s";
    assert_eq!(result.error.as_deref(), Some(text));
}

#[tokio::test(start_paused = true)]
async fn c2_a_slow_tool_times_out_with_its_name_and_time_limit() {
    let config = |seconds| ExecutorConfig {
        timeout: Duration::from_secs_f64(seconds),
        ..ExecutorConfig::default()
    };
    let result = run_one(config(1.0), "sleep", json!({"ms": 3000})).await;
    assert_eq!(
        result.error.as_deref(),
        Some("Tool 'sleep' timed out after 1.0s")
    );
    assert_eq!(result.error_code, Some(ErrorCode::Timeout));
    let result = run_one(config(0.5), "sleep", json!({"ms": 3000})).await;
    assert!(result.error.unwrap().ends_with("after 0.5s"));
    let by_default = ExecutorConfig::default();
    let result = run_one(by_default.clone(), "sleep", json!({"ms": 29_999})).await;
    assert!(result.success);
    let result = run_one(by_default, "sleep", json!({"ms": 30_001})).await;
    assert_eq!(
        result.error.as_deref(),
        Some("Tool 'sleep' timed out after 30.0s")
    );
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
        let tool = Endless(define("endless").build().unwrap());
        registry.register(Arc::new(tool)).unwrap();
        let config = ExecutorConfig {
            timeout: Duration::from_secs_f64(seconds),
            tool_timeouts,
            ..ExecutorConfig::default()
        };
        let executor = Executor::new(Arc::new(registry), config);
        let result = executor
            .execute_one(call("1", "endless", json!({})), &CallContext::default())
            .await;
        let error = result.error.unwrap();
        assert!(
            error.ends_with(&format!("timed out after {after}")),
            "{error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_a_tool_that_blocks_its_thread_does_not_block_the_caller() {
    let registry = ToolRegistry::new();
    let block = FnTool::new(define("block").build().unwrap(), |_, _| async {
        std::thread::sleep(Duration::from_secs(2));
        Ok(ToolOutput::text("late"))
    });
    registry.register(Arc::new(block)).unwrap();
    let config = ExecutorConfig {
        timeout: Duration::from_millis(100),
        ..ExecutorConfig::default()
    };
    let executor = Executor::new(Arc::new(registry), config);
    let started = std::time::Instant::now();
    let result = executor
        .execute_one(call("1", "block", json!({})), &CallContext::default())
        .await;
    assert_eq!(result.error_code, Some(ErrorCode::Timeout));
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn c3_invalid_arguments_never_reach_the_tool() {
    let result = run_one(ExecutorConfig::default(), "add", json!({"a": 1})).await;
    assert_eq!(
        result.error.as_deref(),
        Some("Missing required parameter: b")
    );
    assert_eq!(result.error_code, Some(ErrorCode::InvalidInput));
    let result = run_one(ExecutorConfig::default(), "add", json!({"a": "1", "b": 2})).await;
    assert_eq!(
        result.error.as_deref(),
        Some("Invalid type for a: expected number")
    );
}

#[tokio::test]
async fn a6_arguments_come_as_an_object_or_as_a_string() {
    let run = |arguments| run_one(ExecutorConfig::default(), "add", arguments);
    assert_eq!(run(json!(r#"{"a": 2, "b": 3}"#)).await.result, json!(5));
    for bad in [json!("{bad"), json!("[1]"), json!(7), json!([1])] {
        let result = run(bad.clone()).await;
        assert_eq!(result.error_code, Some(ErrorCode::InvalidInput), "{bad}");
    }
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(
        run(json!(deep)).await.error_code,
        Some(ErrorCode::InvalidInput)
    );
    let no_arguments = |arguments| run_one(ExecutorConfig::default(), "who", arguments);
    for empty in [
        json!(null),
        json!(""),
        json!([]),
        json!("{}"),
        json!("null"),
    ] {
        assert!(no_arguments(empty.clone()).await.success, "{empty}");
    }
}

#[tokio::test]
async fn c4_c5_a_failure_has_its_message_code_and_execution_time() {
    let result = run_one(ExecutorConfig::default(), "fail", json!({})).await;
    assert_eq!(result.error.as_deref(), Some("division by zero"));
    assert_eq!(result.error_code, Some(ErrorCode::InternalError));
    assert!(result.metadata["execution_time"].is_f64());
}

#[tokio::test]
async fn b5_a_name_that_no_tool_has_may_be_repaired() {
    let registry = registry();
    registry.alias("functions.who", "add").unwrap();
    let executor = Executor::new(registry, ExecutorConfig::default());
    let found = |name: &str| executor.find(name).map(|tool| tool.name().to_string());
    for name in [
        " add\n",
        "functions.add",
        "default_api.add",
        "default_api:add",
        "add<|channel|>commentary",
        " functions.add <|end|>",
        // An exact name takes precedence.
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
    assert_eq!(result.error.as_deref(), Some("Unknown tool: nope"));
    assert_eq!(result.error_code, Some(ErrorCode::NotFound));
}

#[tokio::test(start_paused = true)]
async fn c6_a_cooldown_holds_per_user_and_tool() {
    let registry = ToolRegistry::new();
    for name in ["one", "two"] {
        let definition = define(name)
            .cooldown(Duration::from_secs(5))
            .build()
            .unwrap();
        let tool = FnTool::new(definition, |_, _| async { Ok(ToolOutput::text("ok")) });
        registry.register(Arc::new(tool)).unwrap();
    }
    let executor = Executor::new(Arc::new(registry), ExecutorConfig::default());
    let run = async |user: &str, tool: &str| {
        let context = CallContext::for_user(user);
        executor
            .execute_one(call("c", tool, json!({})), &context)
            .await
    };
    assert!(run("alice", "one").await.success);
    let refused = run("alice", "one").await;
    assert_eq!(refused.error_code, Some(ErrorCode::RateLimited));
    assert_eq!(refused.metadata["retry_after"], json!(5));
    assert_eq!(
        refused.error.as_deref(),
        Some("Tool 'one' is cooling down. Retry after 5 seconds.")
    );
    assert!(run("alice", "two").await.success);
    assert!(run("bob", "one").await.success);
    tokio::time::advance(Duration::from_secs(5)).await;
    assert!(run("alice", "one").await.success);
}

#[tokio::test]
async fn c7_a_limit_of_zero_rejects_every_call() {
    let config = ExecutorConfig {
        rate_limits: RateLimits {
            default: RateWindows {
                per_minute: Some(0),
                ..RateWindows::default()
            },
            ..RateLimits::default()
        },
        ..ExecutorConfig::default()
    };
    let executor = Executor::new(registry(), config);
    let context = CallContext::for_user("alice");
    let result = executor
        .execute_one(call("c", "who", json!({})), &context)
        .await;
    assert_eq!(result.error_code, Some(ErrorCode::RateLimited));
}

#[tokio::test(start_paused = true)]
async fn c7_rate_limits_hold_in_any_window() {
    let limits = RateLimits {
        default: RateWindows {
            per_minute: Some(10),
            per_hour: Some(15),
            per_day: Some(500),
        },
        ..RateLimits::default()
    };
    let config = ExecutorConfig {
        rate_limits: limits,
        ..ExecutorConfig::default()
    };
    let executor = Executor::new(registry(), config);
    let run = async |user: &str| {
        let context = CallContext::for_user(user);
        executor
            .execute_one(call("c", "who", json!({})), &context)
            .await
    };
    for _ in 0..10 {
        assert!(run("alice").await.success);
    }
    let refused = run("alice").await;
    assert_eq!(
        refused.error.as_deref(),
        Some("Rate limit exceeded (per-minute). Retry after 60 seconds.")
    );
    assert_eq!(refused.metadata["retry_after"], json!(60));
    assert!(run("bob").await.success);
    tokio::time::advance(Duration::from_secs(60)).await;
    for _ in 0..5 {
        assert!(run("alice").await.success);
    }
    let refused = run("alice").await;
    assert_eq!(
        refused.error.as_deref(),
        Some("Rate limit exceeded (per-hour). Retry after 3540 seconds.")
    );
}

#[tokio::test]
async fn an_output_over_the_limit_is_an_error_and_not_truncated() {
    let registry = ToolRegistry::new();
    let big = FnTool::new(define("big").build().unwrap(), |_, _| async {
        Ok(ToolOutput::text("x".repeat(2000)))
    });
    registry.register(Arc::new(big)).unwrap();
    let config = ExecutorConfig {
        max_output_bytes: 1000,
        ..ExecutorConfig::default()
    };
    let result = Executor::new(Arc::new(registry), config)
        .execute_one(call("1", "big", json!({})), &CallContext::default())
        .await;
    assert_eq!(result.error_code, Some(ErrorCode::InternalError));
    assert_eq!(
        result.error.as_deref(),
        Some("Tool 'big' returned 2002 bytes; the limit is 1000")
    );
}

#[tokio::test(start_paused = true)]
async fn c7_counts_survive_a_change_of_the_limits() {
    let limited = |per_minute| ExecutorConfig {
        rate_limits: RateLimits {
            default: RateWindows {
                per_minute: Some(per_minute),
                ..RateWindows::default()
            },
            ..RateLimits::default()
        },
        ..ExecutorConfig::default()
    };
    let context = CallContext::for_user("alice");
    let run = async |executor: &Executor| {
        let call = call("c", "who", json!({}));
        executor.execute_one(call, &context).await.error_code
    };
    let first = Executor::new(registry(), limited(2));
    assert_eq!(run(&first).await, None);
    assert_eq!(run(&first).await, None);
    let second = first.reconfigured(limited(3), ExecutorHooks::default());
    assert_eq!(run(&second).await, None);
    assert_eq!(run(&second).await, Some(ErrorCode::RateLimited));
}
