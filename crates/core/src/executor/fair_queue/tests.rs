use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;

use crate::executor::{Executor, ExecutorConfig, ExecutorHooks, Load};
use crate::registry::ToolRegistry;
use crate::tool::{CallContext, ErrorCode, FnTool, ToolCall, ToolDefinition, ToolOutput};

/// A tool `work` that takes 100 ms and notes whose call it is.
fn workshop() -> (Arc<ToolRegistry>, Arc<Mutex<Vec<String>>>) {
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&order);
    let definition = ToolDefinition::builder("work", "Works").build().unwrap();
    let work = FnTool::new(definition, move |_, context: CallContext| {
        seen.lock().push(context.user.unwrap_or_default());
        async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(ToolOutput::text("done"))
        }
    });
    let registry = ToolRegistry::new();
    registry.register(Arc::new(work)).unwrap();
    (Arc::new(registry), order)
}

fn config(places: usize, max_queued: usize) -> ExecutorConfig {
    ExecutorConfig {
        max_concurrent: NonZeroUsize::new(places).unwrap(),
        max_queued,
        ..ExecutorConfig::default()
    }
}

/// A call that is under way, and waits already where it has to.
async fn begin(
    executor: &Executor,
    user: &str,
) -> tokio::task::JoinHandle<crate::tool::ToolResult> {
    let (executor, user) = (executor.clone(), user.to_owned());
    let running = tokio::spawn(async move {
        let call = ToolCall::new("c", "work", json!({}));
        let context = CallContext::for_user(user);
        executor.execute_one(call, &context).await
    });
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    running
}

#[tokio::test(start_paused = true)]
async fn c1_users_take_turns_however_many_calls_one_of_them_has_waiting() {
    let (registry, order) = workshop();
    let executor = Executor::new(registry, config(1, 1_000));
    let mut calls = Vec::new();
    for _ in 0..50 {
        calls.push(begin(&executor, "greedy").await);
    }
    for user in ["alice", "bob", "alice"] {
        calls.push(begin(&executor, user).await);
    }
    let load = Load {
        running: 1,
        queued: 52,
    };
    assert_eq!(executor.load(), load);
    for call in calls {
        assert!(call.await.unwrap().success);
    }
    let order = order.lock();
    let first = ["greedy", "greedy", "alice", "bob", "greedy", "alice"];
    assert_eq!(order[..6], first);
    assert_eq!(order.len(), 53);
    assert_eq!(executor.load(), Load::default());
}

#[tokio::test(start_paused = true)]
async fn c7_a_full_queue_says_when_to_come_back_and_still_has_room_for_others() {
    let (registry, _) = workshop();
    let executor = Executor::new(registry, config(1, 3));
    let mut greedy = Vec::new();
    for _ in 0..4 {
        greedy.push(begin(&executor, "greedy").await);
    }
    let refused = begin(&executor, "greedy").await.await.unwrap();
    assert_eq!(refused.error_code, Some(ErrorCode::RateLimited));
    assert_eq!(refused.metadata["retry_after"], json!(1));
    // The greedy user's last call makes room.
    let alice = begin(&executor, "alice").await;
    assert!(alice.await.unwrap().success);
    let ends: Vec<_> = futures_util::future::join_all(greedy).await;
    let worked = ends.iter().map(|end| end.as_ref().unwrap().success);
    assert_eq!(worked.collect::<Vec<_>>(), [true, true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn c2_waiting_counts_against_the_deadline() {
    let (registry, order) = workshop();
    let config = ExecutorConfig {
        timeout: Duration::from_millis(150),
        ..config(1, 10)
    };
    let executor = Executor::new(registry, config);
    let first = begin(&executor, "a").await;
    // It waits for 100 ms and has 50 left, where the tool takes 100.
    let second = begin(&executor, "b").await;
    assert!(first.await.unwrap().success);
    let second = second.await.unwrap();
    assert_eq!(second.error_code, Some(ErrorCode::Timeout));
    assert_eq!(order.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_leaves_the_line() {
    let (registry, order) = workshop();
    let executor = Executor::new(registry, config(1, 10));
    let first = begin(&executor, "a").await;
    let given_up = begin(&executor, "b").await;
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    assert_eq!(executor.load().queued, 0);
    assert!(first.await.unwrap().success);
    assert!(begin(&executor, "c").await.await.unwrap().success);
    assert_eq!(*order.lock(), ["a", "c"]);
}

#[tokio::test(start_paused = true)]
async fn another_configuration_has_the_same_queue() {
    let (registry, order) = workshop();
    let executor = Executor::new(registry, config(1, 10));
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
fn one_press_at_a_time(places: usize, max_queued: usize) -> (Executor, Arc<Mutex<Vec<String>>>) {
    let began = Arc::new(Mutex::new(Vec::new()));
    let registry = ToolRegistry::new();
    for name in ["press", "read"] {
        let definition = ToolDefinition::builder(name, "Works").build().unwrap();
        let began = Arc::clone(&began);
        let tool = FnTool::new(definition, move |_, context: CallContext| {
            began.lock().push(format!("{name} {}", context.call_id));
            async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                Ok(ToolOutput::text("done"))
            }
        });
        registry.register(Arc::new(tool)).unwrap();
    }
    let one = HashMap::from([("press".to_owned(), NonZeroUsize::MIN)]);
    let config = ExecutorConfig {
        tool_concurrency: one,
        ..config(places, max_queued)
    };
    (Executor::new(Arc::new(registry), config), began)
}

fn calls(names: &[&str]) -> Vec<ToolCall> {
    let calls = names.iter().enumerate();
    let calls = calls.map(|(place, name)| ToolCall::new(place.to_string(), *name, json!({})));
    calls.collect()
}

#[tokio::test(start_paused = true)]
async fn c1_calls_of_a_tool_with_one_place_run_in_order_and_hold_up_no_other() {
    let (executor, began) = one_press_at_a_time(5, 10);
    let start = tokio::time::Instant::now();
    // More of them than there are places.
    let calls = calls(&[
        "press", "press", "press", "press", "press", "press", "read", "read",
    ]);
    let results = executor
        .execute_parallel(calls, &CallContext::for_user("ada"))
        .await;
    assert!(results.iter().all(|result| result.success));
    let expected = [
        "press 0", "read 6", "read 7", "press 1", "press 2", "press 3",
    ];
    assert_eq!(began.lock()[..6], expected);
    assert_eq!(start.elapsed().as_millis(), 600);
    assert_eq!(executor.load(), Load::default());
}

#[tokio::test(start_paused = true)]
async fn c1_a_full_line_before_a_tool_with_one_place_leaves_the_others_free() {
    let (executor, began) = one_press_at_a_time(5, 2);
    let pressing = {
        let executor = executor.clone();
        let calls = calls(&["press", "press", "press", "press"]);
        let press = async move {
            let context = CallContext::for_user("ada");
            executor.execute_parallel(calls, &context).await
        };
        tokio::spawn(press)
    };
    tokio::time::sleep(Duration::from_millis(1)).await;
    let queued = Load {
        running: 1,
        queued: 2,
    };
    assert_eq!(executor.load(), queued);
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
async fn a_call_given_up_before_a_tool_with_one_place_leaves_the_place_to_the_next() {
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
    assert_eq!(executor.load(), Load::default());
    assert!(first.await.unwrap_err().is_cancelled());
    assert!(second.await.unwrap_err().is_cancelled());
}
