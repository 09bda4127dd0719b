#![expect(
    clippy::needless_pass_by_value,
    reason = "what json! makes is handed over"
)]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::compose::{ComposedTool, KeptInMemory};
use crate::executor::{
    ApprovalFuture, ApprovalPolicy, ApprovalRequest, Approver, CacheRule, CacheScope, Decision,
    Executor, ExecutorConfig, ExecutorHooks, RateWindows,
};
use crate::registry::ToolRegistry;
use crate::tool::{FnTool, Tool, ToolDefinition, ToolFilter};

/// A registry with tools to put together, and what became of them.
struct Bench {
    registry: Arc<ToolRegistry>,
    /// How many calls of `echo` and `pause` began and ended.
    began: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
    at_once: Arc<AtomicUsize>,
    config: ExecutorConfig,
}

/// Counts when it is dropped.
struct Counts(Arc<AtomicUsize>, Arc<AtomicUsize>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Bench {
    /// `echo` answers with its arguments; `pause` waits for `ms` first; `fail` fails; `who` says
    /// on whose behalf it runs.
    fn new() -> Self {
        let bench = Self {
            registry: Arc::default(),
            began: Arc::default(),
            ended: Arc::default(),
            at_once: Arc::default(),
            config: ExecutorConfig::default(),
        };
        for name in ["echo", "pause", "delete"] {
            let (began, ended) = (Arc::clone(&bench.began), Arc::clone(&bench.ended));
            let running = Arc::new(AtomicUsize::new(0));
            let most = Arc::clone(&bench.at_once);
            bench.add(name, move |arguments, _| {
                began.fetch_add(1, Ordering::SeqCst);
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                let counts = Counts(Arc::clone(&ended), Arc::clone(&running));
                async move {
                    let _counts = counts;
                    let pause = arguments.get("ms").and_then(Value::as_u64).unwrap_or(0);
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                    Ok(ToolOutput::text("said").with_data(Value::Object(arguments)))
                }
            });
        }
        bench.add("fail", |_, _| async {
            Err(ToolFailure::new(ErrorCode::NotFound, "No such city"))
        });
        bench.add("who", |_, context: CallContext| async move {
            let who = json!({"user": context.user, "call": context.call_id});
            Ok(ToolOutput::value(who))
        });
        bench
    }

    fn add<F, Fut>(&self, name: &str, function: F)
    where
        F: Fn(JsonObject, CallContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolOutput, ToolFailure>> + Send + 'static,
    {
        let definition = ToolDefinition::builder(name, "A test");
        let tool = FnTool::new(definition.build().unwrap(), function);
        self.registry.register(Arc::new(tool)).unwrap();
    }

    fn compose(&self, name: &str, rest: Value) {
        let mut declared = json!({"name": name, "description": "A test"});
        let rest = rest.as_object().unwrap().clone();
        declared.as_object_mut().unwrap().extend(rest);
        let composition = Composition::parse(declared).unwrap();
        let keeper = Arc::new(KeptInMemory::new(Duration::from_secs(60)));
        let tool: Arc<dyn Tool> = Arc::new(ComposedTool::new(composition, keeper));
        self.registry.register(tool).unwrap();
    }

    fn executor(&self) -> Executor {
        Executor::new(Arc::clone(&self.registry), self.config.clone())
    }

    async fn run(&self, name: &str, arguments: Value) -> ToolResult {
        let call = ToolCall::new("c", name, arguments);
        let alice = CallContext::for_user("alice");
        self.executor().execute_one(call, &alice).await
    }

    fn began(&self) -> usize {
        self.began.load(Ordering::SeqCst)
    }
}

fn echo(name: &str, arguments: Value) -> Value {
    json!({"name": name, "tool": "echo", "arguments": arguments})
}

#[tokio::test]
async fn p_steps_run_in_order_with_what_came_before() {
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
async fn p_conditions_choose_and_an_output_says_what_comes_of_it() {
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
    ] {
        assert_eq!(bench.run("choose", input).await.result, output);
    }
    let odd = bench.run("choose", json!({"n": "eleven"})).await;
    assert_eq!(
        odd.error.as_deref(),
        Some("Step steps[0].if: only numbers are less or greater")
    );
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
    assert_eq!(bench.at_once.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn p_a_failed_step_ends_it_with_its_name_and_its_code() {
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
    assert_eq!(result.error.as_deref(), Some("Step 'look': No such city"));
    assert_eq!(result.error_code, Some(ErrorCode::NotFound));
    assert_eq!(result.metadata["step"]["tool"], json!("fail"));
    assert_eq!(bench.began(), 1);

    bench.compose(
        "later",
        json!({"steps": [{"name": "a", "tool": "not_there_yet"}]}),
    );
    let result = bench.run("later", json!({})).await;
    assert_eq!(
        result.error.as_deref(),
        Some("Step 'a': Unknown tool: not_there_yet")
    );
    assert_eq!(result.error_code, Some(ErrorCode::NotFound));
}

#[tokio::test]
async fn p_a_step_that_fails_lets_those_beside_it_end() {
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
async fn p_a_reference_to_nothing_is_told() {
    let bench = Bench::new();
    bench.compose(
        "asks",
        json!({"steps": [echo("a", json!({"x": {"$from": "/input/x"}})),
                         echo("b", json!({"y": {"$from": "/steps/a/data/y"}}))]}),
    );
    let result = bench.run("asks", json!({})).await;
    assert_eq!(
        result.error.as_deref(),
        Some("Step 'a': there is nothing at /input/x")
    );
    assert_eq!(result.error_code, Some(ErrorCode::InvalidInput));
    let result = bench.run("asks", json!({"x": 1})).await;
    assert_eq!(
        result.error.as_deref(),
        Some("Step 'b': there is nothing at /steps/a/data/y")
    );
    assert_eq!(result.error_code, Some(ErrorCode::InternalError));
}

#[tokio::test(start_paused = true)]
async fn p_as_many_outer_calls_as_there_are_places_do_not_wait_for_each_other() {
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
        async move {
            let call = ToolCall::new("c", "outer", json!({}));
            executor.execute_one(call, &CallContext::default()).await
        }
    });
    for result in join_all(calls).await {
        assert!(result.success, "{result:?}");
    }
    assert_eq!(bench.at_once.load(Ordering::SeqCst), 2);
    assert_eq!(executor.load().running, 0);
}

#[tokio::test]
async fn p_every_step_keeps_the_limits_of_its_tool() {
    let mut bench = Bench::new();
    let twice = RateWindows {
        per_minute: Some(2),
        ..RateWindows::default()
    };
    bench
        .config
        .rate_limits
        .tools
        .insert("echo".to_owned(), twice);
    bench.compose(
        "three",
        json!({"steps": [echo("a", json!({})), echo("b", json!({})), echo("c", json!({}))]}),
    );
    let result = bench.run("three", json!({})).await;
    assert_eq!(result.error_code, Some(ErrorCode::RateLimited));
    assert!(result.error.unwrap().starts_with("Step 'c': "));
    assert!(result.metadata["retry_after"].as_u64().unwrap() > 0);
    assert_eq!(bench.began(), 2);
}

#[tokio::test]
async fn p_a_step_may_be_answered_by_a_kept_result() {
    let mut bench = Bench::new();
    let rule = CacheRule {
        ttl: Duration::from_secs(60),
        scope: CacheScope::Private,
    };
    bench.config.cache.tools.insert("echo".to_owned(), rule);
    bench.compose(
        "same",
        json!({"steps": [echo("a", json!({"x": 1})), echo("b", json!({"x": 1}))]}),
    );
    assert!(bench.run("same", json!({})).await.success);
    assert_eq!(bench.began(), 1);
}

#[tokio::test]
async fn p_a_step_runs_in_the_callers_name() {
    let bench = Bench::new();
    bench.compose("ask", json!({"steps": [{"name": "me", "tool": "who"}]}));
    let result = bench.run("ask", json!({})).await;
    assert_eq!(result.result, json!({"user": "alice", "call": "c/me"}));
}

#[tokio::test]
async fn l3_a_composed_tool_gives_nobody_a_tool_that_they_may_not_use() {
    let bench = Bench::new();
    let steps = json!([{"name": "me", "tool": "who"}]);
    bench.compose("asks", json!({"steps": steps}));
    bench.compose("lends", json!({"steps": steps, "lends": ["who"]}));
    bench.compose(
        "lends_the_asker",
        json!({"steps": [{"name": "a", "tool": "asks"}], "lends": ["asks"]}),
    );
    let executor = bench.executor();
    let few = CallContext {
        may_use: Some(ToolFilter::new("not who", |name, _| name != "who")),
        ..CallContext::for_user("alice")
    };
    let run = async |name: &str| {
        let call = ToolCall::new("c", name, json!({}));
        executor.execute_one(call, &few).await
    };
    let refused = run("asks").await;
    assert_eq!(
        refused.error.as_deref(),
        Some("Step 'me': Unknown tool: who")
    );
    assert_eq!(refused.error_code, Some(ErrorCode::NotFound));
    assert!(run("lends").await.success);
    // What is lent lends nothing by that.
    let refused = run("lends_the_asker").await;
    assert_eq!(refused.error_code, Some(ErrorCode::NotFound));
}

#[tokio::test(start_paused = true)]
async fn p_the_outer_deadline_and_whoever_gives_up_cancel_what_runs_inside() {
    let mut bench = Bench::new();
    bench
        .config
        .tool_timeouts
        .insert("slow".to_owned(), Duration::from_secs(2));
    let pause = json!({"name": "a", "tool": "pause", "arguments": {"ms": 10_000}});
    bench.compose("slow", json!({"steps": [pause, echo("b", json!({}))]}));
    let result = bench.run("slow", json!({})).await;
    assert_eq!(
        result.error.as_deref(),
        Some("Tool 'slow' timed out after 2.0s")
    );
    let ended = |count| {
        let ended = Arc::clone(&bench.ended);
        async move {
            while ended.load(Ordering::SeqCst) < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(1), ended(1))
        .await
        .unwrap();

    let given_up = tokio::time::timeout(Duration::from_millis(500), bench.run("slow", json!({})));
    assert!(given_up.await.is_err());
    tokio::time::timeout(Duration::from_secs(1), ended(2))
        .await
        .unwrap();
    assert_eq!(bench.began(), 2);
}

#[tokio::test]
async fn p_after_an_approval_the_call_goes_on_and_repeats_nothing() {
    let mut bench = Bench::new();
    let rules = &mut bench.config.approvals;
    rules
        .tools
        .insert("delete".to_owned(), ApprovalPolicy::AlwaysAsk);
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
        let call = ToolCall::new("c", "tidy", json!({"n": n}));
        executor.execute_one(call, context).await
    };
    let stopped = run(&alice, 7).await;
    assert_eq!(stopped.error_code, Some(ErrorCode::ApprovalRequired));
    assert_eq!(
        stopped.error.as_deref(),
        Some("Step 'gone': The call of tool 'delete' needs approval")
    );
    assert_eq!(stopped.metadata["arguments"], json!({"what": 7}));
    assert_eq!(stopped.metadata["steps_kept"], json!(true));
    assert_eq!(bench.began(), 1);
    // Not decided yet: it stops where it was.
    assert_eq!(
        run(&alice, 7).await.metadata["approval_id"],
        stopped.metadata["approval_id"]
    );
    assert_eq!(bench.began(), 1);

    let id = stopped.metadata["approval_id"].as_str().unwrap().to_owned();
    alice.approved.insert(id.clone());
    // Neither another's call nor one with other arguments goes on from there.
    let bob = CallContext {
        user: Some("bob".to_owned()),
        ..alice.clone()
    };
    assert_eq!(
        run(&bob, 7).await.error_code,
        Some(ErrorCode::ApprovalRequired)
    );
    assert_eq!(
        run(&alice, 8).await.error_code,
        Some(ErrorCode::ApprovalRequired)
    );
    assert_eq!(bench.began(), 3);

    let done = run(&alice, 7).await;
    assert_eq!(done.data, Some(json!({"a": 7, "gone": 7})), "{done:?}");
    assert_eq!(done.metadata["resumed"]["steps"], json!(["a"]));
    assert_eq!(bench.began(), 5);
    // What was kept is used up: the next one is a call of its own.
    let again = run(&alice, 7).await;
    assert!(again.success && !again.metadata.contains_key("resumed"));
    assert_eq!(bench.began(), 8);

    let refused = CallContext {
        denied: [id].into(),
        ..CallContext::for_user("alice")
    };
    let refused = run(&refused, 7).await;
    assert_eq!(refused.error_code, Some(ErrorCode::Denied));
}

#[tokio::test]
async fn p_a_call_that_goes_on_and_is_turned_away_can_go_on_again() {
    let mut bench = Bench::new();
    let rules = &mut bench.config.approvals;
    rules
        .tools
        .insert("delete".to_owned(), ApprovalPolicy::AlwaysAsk);
    let once = RateWindows {
        per_minute: Some(1),
        ..RateWindows::default()
    };
    bench
        .config
        .rate_limits
        .tools
        .insert("delete".to_owned(), once);
    bench.compose(
        "tidy",
        json!({"steps": [echo("a", json!({})), {"name": "gone", "tool": "delete"}]}),
    );
    let run = async |executor: &Executor, name: &str, context: &CallContext| {
        let call = ToolCall::new("c", name, json!({}));
        executor.execute_one(call, context).await
    };
    let executor = bench.executor();
    let mut alice = CallContext::for_user("alice");
    let stopped = run(&executor, "tidy", &alice).await;
    let id = stopped.metadata["approval_id"].as_str().unwrap();
    alice.approved.insert(id.to_owned());
    // Somebody has used the tool up meanwhile.
    assert!(run(&executor, "delete", &alice).await.success);
    for _ in 0..2 {
        let refused = run(&executor, "tidy", &alice).await;
        assert_eq!(
            refused.error_code,
            Some(ErrorCode::RateLimited),
            "{refused:?}"
        );
    }
    // A minute later, as it were.
    let done = run(&bench.executor(), "tidy", &alice).await;
    assert_eq!(done.metadata["resumed"]["steps"], json!(["a"]), "{done:?}");
    assert_eq!(bench.began(), 3);
}

/// Approves of everything, after so long.
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
async fn g3_the_time_that_a_person_takes_for_a_step_is_not_the_outer_calls() {
    let mut bench = Bench::new();
    let timeouts = &mut bench.config.tool_timeouts;
    for name in ["inner", "outer"] {
        timeouts.insert(name.to_owned(), Duration::from_secs(2));
    }
    let rules = &mut bench.config.approvals;
    rules
        .tools
        .insert("delete".to_owned(), ApprovalPolicy::AlwaysAsk);
    let pause = |name: &str, tool: &str| {
        let arguments = json!({"ms": {"$from": "/input/ms"}});
        json!({"name": name, "tool": tool, "arguments": arguments})
    };
    bench.compose(
        "inner",
        json!({"steps": [pause("a", "delete"), pause("b", "delete")]}),
    );
    bench.compose("outer", json!({"steps": [pause("all", "inner")]}));
    let hooks = ExecutorHooks {
        approver: Some(Arc::new(Slowly(Duration::from_secs(600)))),
        ..ExecutorHooks::default()
    };
    let registry = Arc::clone(&bench.registry);
    let executor = Executor::with_hooks(registry, bench.config.clone(), hooks);
    let run = async |ms: u64| {
        let call = ToolCall::new("c", "outer", json!({"ms": ms}));
        executor.execute_one(call, &CallContext::default()).await
    };
    let result = run(900).await;
    assert!(result.success, "{result:?}");
    // What the tools take counts.
    let result = run(1_100).await;
    assert_eq!(result.error_code, Some(ErrorCode::Timeout), "{result:?}");
    assert_eq!(bench.began(), 4);
}

#[tokio::test]
async fn l1_the_result_of_a_composed_tool_is_kept_for_its_caller_alone() {
    let mut bench = Bench::new();
    let rule = CacheRule {
        ttl: Duration::from_secs(60),
        scope: CacheScope::Public,
    };
    bench.config.cache.tools.insert("ask".to_owned(), rule);
    bench.compose("ask", json!({"steps": [{"name": "me", "tool": "who"}]}));
    let executor = bench.executor();
    for user in ["alice", "bob", "alice"] {
        let call = ToolCall::new("c", "ask", json!({}));
        let context = CallContext::for_user(user);
        let result = executor.execute_one(call, &context).await;
        assert_eq!(result.result["user"], json!(user));
    }
    assert_eq!(executor.cache_counts().hits, 1);
}

#[tokio::test]
async fn p_a_tool_that_was_made_to_call_itself_ends() {
    let bench = Bench::new();
    // Whoever registers tools one by one is told of no circle.
    bench.compose("one", json!({"steps": [{"name": "a", "tool": "two"}]}));
    bench.compose("two", json!({"steps": [{"name": "a", "tool": "one"}]}));
    let result = bench.run("one", json!({})).await;
    let error = result.error.unwrap();
    assert!(
        error.ends_with("More than 8 calls stand above this one"),
        "{error}"
    );

    let steps: Vec<_> = (0..20).map(|n| echo(&format!("s{n}"), json!({}))).collect();
    bench.compose("twenty", json!({"steps": steps}));
    let steps: Vec<_> = (0..20)
        .map(|n| json!({"name": format!("s{n}"), "tool": "twenty"}))
        .collect();
    bench.compose("four_hundred", json!({"steps": steps}));
    let result = bench.run("four_hundred", json!({})).await;
    let error = result.error.unwrap();
    assert!(
        error.ends_with("One call makes no more than 256 others"),
        "{error}"
    );
}

/// Alice, who may use the tools of `names`.
fn alice_with(names: &'static [&'static str]) -> CallContext {
    let filter = ToolFilter::new(names.join(","), |name, _| names.contains(&name));
    CallContext {
        may_use: Some(filter),
        ..CallContext::for_user("alice")
    }
}

#[tokio::test]
async fn h2_l3_a_kept_result_is_for_those_alone_who_may_use_the_same_tools() {
    let mut bench = Bench::new();
    let rule = CacheRule {
        ttl: Duration::from_secs(60),
        scope: CacheScope::Private,
    };
    bench.config.cache.tools.insert("ask".to_owned(), rule);
    bench.compose("ask", json!({"steps": [{"name": "me", "tool": "who"}]}));
    let executor = bench.executor();
    let run = async |context: &CallContext| {
        let call = ToolCall::new("c", "ask", json!({}));
        executor.execute_one(call, context).await
    };
    let many = alice_with(&["ask", "who"]);
    assert!(run(&many).await.success);
    let refused = run(&alice_with(&["ask"])).await;
    assert_eq!(refused.error_code, Some(ErrorCode::NotFound), "{refused:?}");
    // Another filter that admits the same has the result, another channel has none.
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
async fn l3_kept_steps_are_for_those_alone_who_may_use_the_same_tools() {
    let mut bench = Bench::new();
    let rules = &mut bench.config.approvals;
    rules
        .tools
        .insert("delete".to_owned(), ApprovalPolicy::AlwaysAsk);
    bench.compose(
        "tidy",
        json!({"steps": [{"name": "me", "tool": "who"}, {"name": "gone", "tool": "delete"}]}),
    );
    let executor = bench.executor();
    let run = async |context: &CallContext| {
        let call = ToolCall::new("c", "tidy", json!({}));
        executor.execute_one(call, context).await
    };
    let stopped = run(&alice_with(&["tidy", "who", "delete"])).await;
    assert_eq!(stopped.error_code, Some(ErrorCode::ApprovalRequired));
    let id = stopped.metadata["approval_id"].as_str().unwrap();
    let mut few = alice_with(&["tidy", "delete"]);
    few.approved.insert(id.to_owned());
    let refused = run(&few).await;
    assert_eq!(
        refused.error.as_deref(),
        Some("Step 'me': Unknown tool: who")
    );
}

#[tokio::test]
async fn p_another_declaration_of_a_composed_tool_has_none_of_the_kept_results() {
    let mut bench = Bench::new();
    let rule = CacheRule {
        ttl: Duration::from_secs(60),
        scope: CacheScope::Private,
    };
    bench.config.cache.tools.insert("ask".to_owned(), rule);
    let executor = bench.executor();
    let run = async || {
        let call = ToolCall::new("c", "ask", json!({}));
        let context = CallContext::for_user("alice");
        executor.execute_one(call, &context).await
    };
    bench.compose("ask", json!({"steps": [echo("a", json!({"n": 1}))]}));
    assert_eq!(run().await.data, Some(json!({"n": 1})));
    bench.registry.unregister("ask");
    bench.compose("ask", json!({"steps": [echo("a", json!({"n": 2}))]}));
    assert_eq!(run().await.data, Some(json!({"n": 2})));
}
