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
