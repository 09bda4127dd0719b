mod approvals;
mod bench;
mod cache;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;

use crate::tests::{assert_failure, call};
use crate::tool::{CallContext, ErrorCode, ToolFilter};
use bench::{Bench, echo};

#[tokio::test]
async fn p_steps_run_in_order_and_see_earlier_results() {
    let bench = Bench::new();
    bench.compose(
        "two",
        json!({"steps": [
            echo("a", json!({"city": {"$from": "/input/city"}})),
            echo("b", json!({"from_a": {"$from": "/steps/a/data/city"}, "said": {"$from": "/steps/a/text"}})),
        ]}),
    );
    let result = bench.run("two", json!({"city": "Ulm"})).await;
    assert_eq!(result.result, json!("said"), "{result:?}");
    assert_eq!(result.data, Some(json!({"from_a": "Ulm", "said": "said"})));
    let steps = result.metadata["steps"].as_array().unwrap();
    let names: Vec<_> = steps.iter().map(|step| step["name"].as_str()).collect();
    assert_eq!(names, [Some("a"), Some("b")]);
}

#[tokio::test]
async fn p_conditions_select_steps_and_the_output_is_filled_in() {
    let bench = Bench::new();
    bench.compose(
        "choose",
        json!({
            "steps": [
                {"if": {"all": [{"exists": "/input/n"}, {"greater": [{"$from": "/input/n"}, 10]}]},
                 "then": [echo("large", json!({"n": {"$from": "/input/n"}}))],
                 "else": [echo("small", json!({"is": "small"}))]},
            ],
            "output": {
                "large": {"$from": "/steps/large/data/n", "default": null},
                "small": {"$from": "/steps/small/data/is", "default": null},
            },
        }),
    );
    for (input, output) in [
        (json!({"n": 11}), json!({"large": 11, "small": null})),
        (json!({"n": 10}), json!({"large": null, "small": "small"})),
        (json!({}), json!({"large": null, "small": "small"})),
        (json!({"n": 10.5}), json!({"large": 10.5, "small": null})),
    ] {
        assert_eq!(bench.run("choose", input).await.result, output);
    }
    let odd = bench.run("choose", json!({"n": "eleven"})).await;
    let expected =
        "Step steps[0].if: 'less', 'greater', 'at_most' and 'at_least' compare numbers only";
    assert_eq!(odd.error.as_deref(), Some(expected));
}

#[tokio::test]
async fn p_integers_with_the_same_float_value_are_distinguished() {
    let bench = Bench::new();
    let one = 9_007_199_254_740_993_u64;
    bench.compose(
        "tell",
        json!({
            "steps": [
                {"if": {"less": [9_007_199_254_740_992_u64, one]}, "then": [echo("less", json!({"n": one}))]},
                {"if": {"at_most": [u64::MAX, -1]}, "then": [echo("never", json!({"n": 0}))]},
            ],
            "output": {
                "less": {"$from": "/steps/less/data/n", "default": null},
                "never": {"$from": "/steps/never/data/n", "default": null},
            },
        }),
    );
    let output = bench.run("tell", json!({})).await.result;
    assert_eq!(output, json!({"less": one, "never": null}));
}

#[tokio::test(start_paused = true)]
async fn p_parallel_steps_run_side_by_side() {
    let bench = Bench::new();
    let pause = |name: &str| json!({"name": name, "tool": "pause", "arguments": {"ms": 1000}});
    bench.compose(
        "three",
        json!({"steps": [{"parallel": [pause("a"), pause("b"), {"sequence": [pause("c"), pause("d")]}]}],
               "output": {"$from": "/steps/d/data/ms"}}),
    );
    let begin = tokio::time::Instant::now();
    let result = bench.run("three", json!({})).await;
    assert_eq!(result.result, json!(1000));
    assert_eq!(begin.elapsed().as_secs(), 2);
    assert_eq!(bench.max_running.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn p_a_failed_step_ends_the_call_with_its_name_and_code() {
    let bench = Bench::new();
    bench.compose(
        "fails",
        json!({"steps": [
            echo("first", json!({})),
            {"name": "look", "tool": "fail"},
            echo("last", json!({})),
        ]}),
    );
    let result = bench.run("fails", json!({})).await;
    assert_failure(&result, ErrorCode::NotFound, "Step 'look': No such city");
    assert_eq!(result.metadata["step"]["tool"], json!("fail"));
    assert_eq!(bench.began(), 1);

    let steps = json!([{"name": "a", "tool": "not_there_yet"}]);
    bench.compose("later", json!({"steps": steps}));
    let result = bench.run("later", json!({})).await;
    let message = "Step 'a': Unknown tool: not_there_yet";
    assert_failure(&result, ErrorCode::NotFound, message);
}

#[tokio::test]
async fn p_steps_in_parallel_with_a_failed_step_finish() {
    let bench = Bench::new();
    bench.compose(
        "side",
        json!({"steps": [{"parallel": [
            {"name": "bad", "tool": "fail"},
            {"name": "slow", "tool": "pause", "arguments": {"ms": 50}},
        ]}], "output": 1}),
    );
    let result = bench.run("side", json!({})).await;
    assert_eq!(result.error.as_deref(), Some("Step 'bad': No such city"));
    assert_eq!(bench.ended.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn p_a_reference_to_a_missing_value_is_reported() {
    let bench = Bench::new();
    bench.compose(
        "asks",
        json!({"steps": [echo("a", json!({"x": {"$from": "/input/x"}})),
                         echo("b", json!({"y": {"$from": "/steps/a/data/y"}}))]}),
    );
    let result = bench.run("asks", json!({})).await;
    let message = "Step 'a': no value at /input/x";
    assert_failure(&result, ErrorCode::InvalidInput, message);
    let result = bench.run("asks", json!({"x": 1})).await;
    let message = "Step 'b': no value at /steps/a/data/y";
    assert_failure(&result, ErrorCode::InternalError, message);
}

#[tokio::test(start_paused = true)]
async fn p_outer_calls_that_hold_all_permits_do_not_deadlock() {
    let mut bench = Bench::new();
    bench.config.max_concurrent = NonZeroUsize::new(2).unwrap();
    let pause = |name: &str| json!({"name": name, "tool": "pause", "arguments": {"ms": 100}});
    bench.compose("inner", json!({"steps": [pause("a"), pause("b")]}));
    bench.compose(
        "outer",
        json!({"steps": [{"parallel": [{"name": "x", "tool": "inner"}, {"name": "y", "tool": "inner"}]}, pause("z")]}),
    );
    let executor = bench.executor();
    let calls = (0..8).map(|_| {
        let executor = executor.clone();
        async move { call(&executor, "outer", json!({}), &CallContext::default()).await }
    });
    for result in join_all(calls).await {
        assert!(result.success, "{result:?}");
    }
    assert_eq!(bench.max_running.load(Ordering::SeqCst), 2);
    assert_eq!(executor.load().running, 0);
}

#[tokio::test]
async fn p_limits_of_a_tool_apply_to_its_steps() {
    let mut bench = Bench::new();
    bench.limit("echo", 2);
    let steps = ["a", "b", "c"].map(|name| echo(name, json!({})));
    bench.compose("three", json!({"steps": steps}));
    let result = bench.run("three", json!({})).await;
    assert_eq!(result.error_code, Some(ErrorCode::RateLimited));
    assert!(result.error.unwrap().starts_with("Step 'c': "));
    assert!(result.metadata["retry_after"].as_u64().unwrap() > 0);
    assert_eq!(bench.began(), 2);
}

#[tokio::test]
async fn p_a_step_runs_in_the_callers_name() {
    let bench = Bench::new();
    bench.compose("ask", json!({"steps": [{"name": "me", "tool": "who"}]}));
    let result = bench.run("ask", json!({})).await;
    let who = json!({"user": "alice", "call": "c/me", "is_verified": false});
    assert_eq!(result.result, who);
}

#[tokio::test]
async fn l3_a_composed_tool_gives_no_access_to_hidden_tools() {
    let bench = Bench::new();
    let steps = json!([{"name": "me", "tool": "who"}]);
    bench.compose("asks", json!({"steps": steps}));
    bench.compose("grants", json!({"steps": steps, "grants": ["who"]}));
    let grants_the_asker = json!({"steps": [{"name": "a", "tool": "asks"}], "grants": ["asks"]});
    bench.compose("grants_the_asker", grants_the_asker);
    let executor = bench.executor();
    let few = CallContext {
        may_use: Some(ToolFilter::new("not who", |name, _| name != "who")),
        ..CallContext::for_user("alice")
    };
    let run = async |name: &str| call(&executor, name, json!({}), &few).await;
    let rejected = run("asks").await;
    let message = "Step 'me': Unknown tool: who";
    assert_failure(&rejected, ErrorCode::NotFound, message);
    assert!(run("grants").await.success);
    // A composed tool that runs through `grants` does not pass on its own grants.
    let rejected = run("grants_the_asker").await;
    assert_eq!(rejected.error_code, Some(ErrorCode::NotFound));
}

#[tokio::test(start_paused = true)]
async fn p_deadline_and_cancellation_of_the_outer_call_cancel_its_steps() {
    let mut bench = Bench::new();
    let timeouts = &mut bench.config.tool_timeouts;
    timeouts.insert("slow".to_owned(), Duration::from_secs(2));
    let pause = json!({"name": "a", "tool": "pause", "arguments": {"ms": 10_000}});
    bench.compose("slow", json!({"steps": [pause, echo("b", json!({}))]}));
    let result = bench.run("slow", json!({})).await;
    let message = "Tool 'slow' timed out after 2.0s";
    assert_failure(&result, ErrorCode::Timeout, message);
    let ended = |count| {
        let ended = Arc::clone(&bench.ended);
        async move {
            while ended.load(Ordering::SeqCst) < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    let second = Duration::from_secs(1);
    tokio::time::timeout(second, ended(1)).await.unwrap();

    let given_up = tokio::time::timeout(Duration::from_millis(500), bench.run("slow", json!({})));
    assert!(given_up.await.is_err());
    tokio::time::timeout(second, ended(2)).await.unwrap();
    assert_eq!(bench.began(), 2);
}

#[tokio::test]
async fn p_recursion_between_composed_tools_ends() {
    let bench = Bench::new();
    // Registering tools one by one does not detect cycles.
    bench.compose("one", json!({"steps": [{"name": "a", "tool": "two"}]}));
    bench.compose("two", json!({"steps": [{"name": "a", "tool": "one"}]}));
    let result = bench.run("one", json!({})).await;
    let error = result.error.unwrap();
    let end = "Nested tool calls are limited to 8 levels";
    assert!(error.ends_with(end), "{error}");

    let steps: Vec<_> = (0..20).map(|n| echo(&format!("s{n}"), json!({}))).collect();
    bench.compose("twenty", json!({"steps": steps}));
    let steps: Vec<_> = (0..20)
        .map(|n| json!({"name": format!("s{n}"), "tool": "twenty"}))
        .collect();
    bench.compose("four_hundred", json!({"steps": steps}));
    let result = bench.run("four_hundred", json!({})).await;
    let error = result.error.unwrap();
    let end = "Nested tool calls are limited to 256 for one call";
    assert!(error.ends_with(end), "{error}");
}
