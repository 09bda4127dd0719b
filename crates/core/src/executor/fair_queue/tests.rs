use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::executor::{Executor, ExecutorConfig, ExecutorHooks, QueueLoad, ToolSettings};
use crate::registry::ToolRegistry;
use crate::tests::{add, call_for, definition};
use crate::tool::{
    CallContext, ErrorCode, JsonObject, Tool, ToolCall, ToolDefinition, ToolFuture, ToolOrigin,
    ToolOutput, ToolResult,
};

/// Returns an executor with a tool `work`, which takes 100 ms, and the list of the users that
/// called the tool.
fn workshop(config: ExecutorConfig) -> (Executor, Arc<Mutex<Vec<String>>>) {
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&order);
    let registry = ToolRegistry::new();
    let work = definition("work");
    add(&registry, work, move |_, context: CallContext| {
        seen.lock().push(context.user.unwrap_or_default());
        async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(ToolOutput::text("done"))
        }
    });
    (Executor::new(Arc::new(registry), config), order)
}

fn config(max_concurrent: usize, max_queued: usize) -> ExecutorConfig {
    ExecutorConfig {
        max_concurrent: NonZeroUsize::new(max_concurrent).unwrap(),
        max_queued,
        ..ExecutorConfig::default()
    }
}

/// Starts a call of a tool. When this function returns, the call is running or queued.
fn load(running: usize, queued: usize) -> QueueLoad {
    QueueLoad { running, queued }
}

async fn begin_call(executor: &Executor, user: &str, tool: &'static str) -> JoinHandle<ToolResult> {
    let (executor, user) = (executor.clone(), user.to_owned());
    let running = tokio::spawn(async move { call_for(&executor, &user, tool).await });
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    running
}

async fn begin(executor: &Executor, user: &str) -> JoinHandle<ToolResult> {
    begin_call(executor, user, "work").await
}

#[tokio::test(start_paused = true)]
async fn c1_users_take_turns_however_many_calls_one_user_queues() {
    let (executor, order) = workshop(config(1, 1_000));
    let mut calls = Vec::new();
    for _ in 0..50 {
        calls.push(begin(&executor, "greedy").await);
    }
    for user in ["alice", "bob", "alice"] {
        calls.push(begin(&executor, user).await);
    }
    assert_eq!(executor.load(), load(1, 52));
    for call in calls {
        assert!(call.await.unwrap().success);
    }
    let order = order.lock();
    let first = ["greedy", "greedy", "alice", "bob", "greedy", "alice"];
    assert_eq!(order[..6], first);
    assert_eq!(order.len(), 53);
    assert_eq!(executor.load(), QueueLoad::default());
}

#[tokio::test(start_paused = true)]
async fn c7_a_full_queue_sets_retry_after_and_admits_other_users() {
    let (executor, _) = workshop(config(1, 3));
    let mut greedy = Vec::new();
    for _ in 0..4 {
        greedy.push(begin(&executor, "greedy").await);
    }
    let rejected = call_for(&executor, "greedy", "work").await;
    assert_eq!(rejected.error_code, Some(ErrorCode::RateLimited));
    assert_eq!(rejected.metadata["retry_after"], json!(1));
    // The newest queued call of the user with the most queued calls makes room.
    assert!(call_for(&executor, "alice", "work").await.success);
    let ends: Vec<_> = futures_util::future::join_all(greedy).await;
    let worked = ends.iter().map(|end| end.as_ref().unwrap().success);
    assert_eq!(worked.collect::<Vec<_>>(), [true, true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn c2_time_in_the_queue_counts() {
    let (executor, order) = workshop(ExecutorConfig {
        timeout: Duration::from_millis(150),
        ..config(1, 10)
    });
    let first = begin(&executor, "a").await;
    // The second call waits for 100 ms and has 50 ms left, but the tool takes 100 ms.
    let second = begin(&executor, "b").await;
    assert!(first.await.unwrap().success);
    assert_eq!(second.await.unwrap().error_code, Some(ErrorCode::Timeout));
    assert_eq!(order.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_leaves_the_queue() {
    let (executor, order) = workshop(config(1, 10));
    let first = begin(&executor, "a").await;
    let given_up = begin(&executor, "b").await;
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    assert_eq!(executor.load().queued, 0);
    assert!(first.await.unwrap().success);
    assert!(call_for(&executor, "c", "work").await.success);
    assert_eq!(*order.lock(), ["a", "c"]);
}

#[tokio::test(start_paused = true)]
async fn the_queue_survives_a_new_configuration() {
    let (executor, order) = workshop(config(1, 10));
    let first = begin(&executor, "a").await;
    let second = begin(&executor, "b").await;
    assert_eq!(order.lock().len(), 1);
    let wider = executor.reconfigured(config(2, 10), ExecutorHooks::default());
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(*order.lock(), ["a", "b"]);
    assert_eq!(wider.load().running, 2);
    assert!(first.await.unwrap().success && second.await.unwrap().success);
}

/// Tools `press` and `read` that take 100 ms each, of which one `press` may run at once.
fn one_press_at_a_time(
    max_concurrent: usize,
    max_queued: usize,
) -> (Executor, Arc<Mutex<Vec<String>>>) {
    let began = Arc::new(Mutex::new(Vec::new()));
    let registry = ToolRegistry::new();
    for name in ["press", "read"] {
        let began = Arc::clone(&began);
        let tool = definition(name);
        add(&registry, tool, move |_, context: CallContext| {
            began.lock().push(format!("{name} {}", context.call_id));
            async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                Ok(ToolOutput::text("done"))
            }
        });
    }
    let config = ExecutorConfig {
        tool_concurrency: ToolSettings::from([("press".to_owned(), NonZeroUsize::MIN)]),
        ..config(max_concurrent, max_queued)
    };
    (Executor::new(Arc::new(registry), config), began)
}

fn calls(names: &[&str]) -> Vec<ToolCall> {
    let indexed = names.iter().enumerate();
    let calls = indexed.map(|(index, name)| ToolCall::new(index.to_string(), *name, json!({})));
    calls.collect()
}

#[tokio::test(start_paused = true)]
async fn c1_calls_of_a_tool_with_one_permit_run_in_order_and_delay_no_other_tool() {
    let (executor, began) = one_press_at_a_time(5, 10);
    let start = tokio::time::Instant::now();
    // There are more calls of `press` than permits.
    let calls = calls(&[&["press"; 6][..], &["read"; 2][..]].concat());
    let ada = CallContext::for_user("ada");
    let results = executor.execute_parallel(calls, &ada).await;
    assert!(results.iter().all(|result| result.success));
    let expected = [
        "press 0", "read 6", "read 7", "press 1", "press 2", "press 3",
    ];
    assert_eq!(began.lock()[..6], expected);
    assert_eq!(start.elapsed().as_millis(), 600);
    assert_eq!(executor.load(), QueueLoad::default());
}

#[tokio::test(start_paused = true)]
async fn c1_a_full_queue_of_a_tool_with_one_permit_leaves_other_tools_free() {
    let (executor, began) = one_press_at_a_time(5, 2);
    let pressing = {
        let executor = executor.clone();
        let calls = calls(&["press"; 4]);
        let press = async move {
            let context = CallContext::for_user("ada");
            executor.execute_parallel(calls, &context).await
        };
        tokio::spawn(press)
    };
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(executor.load(), load(1, 2));
    let read = calls(&["read"]).remove(0);
    let bob = CallContext::for_user("bob");
    assert!(executor.execute_one(read, &bob).await.success);
    let ends = pressing.await.unwrap();
    let codes: Vec<_> = ends.iter().map(|end| end.error_code).collect();
    assert_eq!(codes, [None, None, None, Some(ErrorCode::RateLimited)]);
    let expected = ["press 0", "read 0", "press 1", "press 2"];
    assert_eq!(*began.lock(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_of_a_tool_with_one_permit_passes_the_permit_on() {
    let (executor, began) = one_press_at_a_time(2, 10);
    let press = |id: &str| {
        let (executor, call) = (executor.clone(), ToolCall::new(id, "press", json!({})));
        tokio::spawn(async move { executor.execute_one(call, &CallContext::default()).await })
    };
    let (first, second, third) = (press("1"), press("2"), press("3"));
    tokio::time::sleep(Duration::from_millis(1)).await;
    first.abort();
    second.abort();
    assert!(third.await.unwrap().success);
    assert_eq!(*began.lock(), ["press 1", "press 3"]);
    assert_eq!(executor.load(), QueueLoad::default());
    assert!(first.await.unwrap_err().is_cancelled());
    assert!(second.await.unwrap_err().is_cancelled());
}

/// A tool of the MCP server `server`, or a local tool, that runs for a given time.
struct Timed {
    definition: ToolDefinition,
    server: Option<&'static str>,
    takes: Duration,
    began: Arc<Mutex<Vec<String>>>,
}

impl Tool for Timed {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn origin(&self) -> ToolOrigin {
        self.server
            .map_or(ToolOrigin::Native, |label| ToolOrigin::Mcp {
                server_label: label.to_owned(),
                server_url: "http://127.0.0.1:9/".to_owned(),
            })
    }

    fn call(self: Arc<Self>, _: JsonObject, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            let user = context.user.unwrap_or_default();
            let name = self.definition.name();
            self.began.lock().push(format!("{user} {name}"));
            tokio::time::sleep(self.takes).await;
            Ok(ToolOutput::text("done"))
        })
    }
}

/// Tools `slow` of the server `far` and `other` of the server `near`, which take 1 s, and the local
/// tool `here`, which takes 10 ms.
fn two_servers(config: ExecutorConfig) -> (Executor, Arc<Mutex<Vec<String>>>) {
    let began = Arc::new(Mutex::new(Vec::new()));
    let registry = ToolRegistry::new();
    for (name, server, millis) in [
        ("slow", Some("far"), 1_000),
        ("other", Some("near"), 1_000),
        ("here", None, 10),
    ] {
        let tool = Timed {
            definition: definition(name),
            server,
            takes: Duration::from_millis(millis),
            began: Arc::clone(&began),
        };
        registry.register(Arc::new(tool)).unwrap();
    }
    (Executor::new(Arc::new(registry), config), began)
}

/// Starts `count` calls of a tool for one user, and lets them queue.
async fn flood(executor: &Executor, user: &str, tool: &'static str, count: usize) {
    for _ in 0..count {
        begin_call(executor, user, tool).await;
    }
}

/// Returns how long one call takes, in milliseconds.
async fn time_of(executor: &Executor, user: &str, tool: &str) -> u128 {
    let start = tokio::time::Instant::now();
    assert!(call_for(executor, user, tool).await.success);
    start.elapsed().as_millis()
}

#[tokio::test(start_paused = true)]
async fn c1_a_slow_server_delays_neither_other_servers_nor_local_tools() {
    let (executor, _) = two_servers(ExecutorConfig::default());
    flood(&executor, "ada", "slow", 20).await;
    assert_eq!(executor.load(), load(5, 15));
    // Calls of the user who made the slow calls are not delayed either.
    for user in ["ada", "bob"] {
        assert_eq!(time_of(&executor, user, "here").await, 10);
        assert_eq!(time_of(&executor, user, "other").await, 1_000);
    }
}

#[tokio::test(start_paused = true)]
async fn c1_busy_servers_leave_one_permit_for_local_tools() {
    let config = ExecutorConfig::default().with_concurrency(None, NonZeroUsize::new(3));
    let (executor, _) = two_servers(config);
    flood(&executor, "ada", "slow", 10).await;
    flood(&executor, "ada", "other", 10).await;
    assert_eq!(executor.load().running, 2);
    assert_eq!(time_of(&executor, "ada", "here").await, 10);
    // With one permit in total, no permit is reserved for local tools.
    let config = ExecutorConfig::default().with_concurrency(None, NonZeroUsize::new(1));
    let (executor, _) = two_servers(config);
    assert_eq!(time_of(&executor, "ada", "slow").await, 1_000);
}

#[tokio::test(start_paused = true)]
async fn c1_a_server_has_the_configured_number_of_permits() {
    let config = ExecutorConfig {
        server_concurrency: HashMap::from([("far".to_owned(), NonZeroUsize::MIN)]),
        max_concurrent: NonZeroUsize::MIN.saturating_add(2),
        ..ExecutorConfig::default()
    };
    let (executor, began) = two_servers(config);
    // A batch does not fill the queue.
    let batch = |tool: &'static str| {
        let executor = executor.clone();
        tokio::spawn(async move {
            let context = CallContext::for_user("ada");
            executor.execute_parallel(calls(&[tool; 6]), &context).await
        })
    };
    let batches = [batch("slow"), batch("other")];
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(executor.load(), load(4, 0));
    let began = began.lock().clone();
    let count = |tool: &str| began.iter().filter(|call| call.ends_with(tool)).count();
    assert_eq!((count("slow"), count("other")), (1, 3));
    for batch in batches {
        assert!(batch.await.unwrap().iter().all(|result| result.success));
    }
}

#[tokio::test(start_paused = true)]
async fn c1_a_free_permit_goes_to_the_server_with_the_fewest_permits() {
    let config = ExecutorConfig::default().with_concurrency(None, NonZeroUsize::new(3));
    let (executor, began) = two_servers(config);
    // `far` holds both permits, for calls of many users.
    for user in ["a", "b", "c", "d", "e", "f"] {
        flood(&executor, user, "slow", 2).await;
    }
    flood(&executor, "z", "other", 1).await;
    began.lock().clear();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    // Either of the two permits may be free first.
    let next = began.lock().clone();
    assert_eq!(next.len(), 2);
    assert!(next.contains(&"z other".to_owned()), "{next:?}");
}

#[tokio::test(start_paused = true)]
async fn c7_a_server_that_fills_the_queue_loses_a_call_to_another_server() {
    let config = ExecutorConfig {
        max_concurrent_local: NonZeroUsize::new(1),
        max_queued: 6,
        ..ExecutorConfig::default()
    };
    let (executor, _) = two_servers(config);
    for user in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"] {
        flood(&executor, user, "slow", 1).await;
    }
    assert_eq!(executor.load().queued, 6);
    flood(&executor, "a", "here", 1).await;
    assert_eq!(time_of(&executor, "b", "here").await, 20);
    assert_eq!(executor.load().queued, 5);
    let load = executor.load();
    // No server has more queued calls than the server of the new call.
    flood(&executor, "m", "slow", 1).await;
    let rejected = call_for(&executor, "n", "slow").await;
    assert_eq!(rejected.error_code, Some(ErrorCode::RateLimited));
    assert_eq!(executor.load().queued, load.queued + 1);
}
