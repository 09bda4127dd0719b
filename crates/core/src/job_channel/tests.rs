use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::*;
use crate::executor::{ApprovalPolicy, ExecutorConfig};
use crate::registry::ToolRegistry;
use crate::tests::{add_echo, definition};
use crate::tool::ToolOrigin;

/// A peer that records its jobs. The peer is busy until `free` is notified.
struct FakePeer {
    jobs: Mutex<Vec<String>>,
    free: Option<Notify>,
    handled_jobs: HandledJobs,
    is_gone: bool,
}

impl FakePeer {
    fn new(handles_all: bool) -> Self {
        Self {
            jobs: Mutex::default(),
            free: None,
            handled_jobs: HandledJobs {
                approvals: handles_all,
                gate: handles_all,
                notifications: handles_all,
            },
            is_gone: false,
        }
    }

    fn record<T>(&self, job: String, output: T) -> JobOutcome<T> {
        self.jobs.lock().push(job);
        if self.is_gone {
            return Err(PeerGone);
        }
        Ok(Ok(output))
    }
}

impl JobPeer for FakePeer {
    type Tool = u64;

    const NAME: &'static str = "fake thread";

    fn handled_jobs(&self) -> HandledJobs {
        self.handled_jobs
    }

    async fn run_tool(&self, run: ToolRun<u64>) -> JobOutcome<ToolOutput> {
        let job = format!("run {} {} {}", run.tool, run.name, run.call_id);
        self.record(job, ToolOutput::value(Value::Object(run.arguments)))
    }

    async fn approve(&self, request: Box<ApprovalRequest>) -> JobOutcome<Decision> {
        let job = format!("approve {}", request.context.call_id);
        self.record(job, Decision::Approved)
    }

    async fn enter(&self, call: Box<ReadyCall>) -> JobOutcome<Option<ToolOutput>> {
        self.record(format!("enter {}", call.context.call_id), None)
    }

    fn notify(&self, notification: CallNotification) {
        let state = notification.end.map_or("started", |_| "ended");
        let job = format!("{state} {}", notification.call_id);
        self.jobs.lock().push(job);
    }

    async fn wait_until_idle(&self) {
        if let Some(free) = &self.free {
            free.notified().await;
        }
    }
}

fn executor() -> Executor {
    let registry = Arc::new(ToolRegistry::new());
    let tool = PeerTool::<FakePeer>::new(definition("greet"), ToolOrigin::Native, None, 7);
    registry.register(Arc::new(tool)).unwrap();
    add_echo(&registry, definition("native"));
    let mut config = ExecutorConfig::default();
    let policies = &mut config.approvals.tools;
    policies.insert("greet".to_owned(), ApprovalPolicy::AlwaysAsk);
    Executor::with_hooks(registry, config, hooks::<FakePeer>())
}

async fn run(peer: FakePeer, calls: &[(&str, &str)]) -> (Vec<Option<ToolResult>>, Vec<String>) {
    let channel = JobChannel::new(peer);
    let results = Mutex::new(vec![None; calls.len()]);
    let calls = calls.iter().map(|(id, name)| PeerCall {
        call: ToolCall::new(*id, *name, json!({})),
        is_by_peer: *name == "greet",
    });
    let finished = |index: usize, result| {
        results.lock()[index] = Some(result);
        std::future::ready(())
    };
    let context = CallContext::default();
    let executor = executor();
    let calls = calls.collect();
    channel.run(&executor, calls, &context, finished).await;
    let jobs = channel.peer().jobs.lock().clone();
    (results.into_inner(), jobs)
}

#[tokio::test]
async fn the_peer_approves_checks_and_runs_its_calls_in_order() {
    let calls = [("1", "greet"), ("2", "native"), ("3", "greet")];
    let (results, jobs) = run(FakePeer::new(true), &calls).await;
    assert!(results.iter().flatten().all(|result| result.success));
    assert_eq!(results.iter().flatten().count(), 3);
    let of_greet = jobs.into_iter().filter(|job| !job.ends_with('2'));
    let expected = [1, 3]
        .map(|id| format!("started {id}, approve {id}, enter {id}, run 7 greet {id}, ended {id}"));
    assert_eq!(of_greet.collect::<Vec<_>>().join(", "), expected.join(", "));
}

#[tokio::test]
async fn a_peer_gets_only_the_jobs_that_it_handles() {
    let (results, jobs) = run(FakePeer::new(false), &[("1", "greet"), ("2", "native")]).await;
    let code = results[0].as_ref().unwrap().error_code;
    assert_eq!(code, Some(ErrorCode::ApprovalRequired));
    assert!(results[1].as_ref().unwrap().success);
    assert!(jobs.is_empty());
}

#[tokio::test]
async fn a_job_of_a_peer_that_is_gone_is_cancelled() {
    let mut peer = FakePeer::new(true);
    peer.is_gone = true;
    let (results, _) = run(peer, &[("1", "greet"), ("2", "native")]).await;
    let failed = results.into_iter().map(|result| result.unwrap());
    let errors: Vec<_> = failed.map(|it| (it.error_code, it.error)).collect();
    let cancelled_failure = |what: &str| {
        let message = format!("{what} was cancelled");
        (Some(ErrorCode::Cancelled), Some(message))
    };
    let expected = [
        cancelled_failure("The approval request"),
        cancelled_failure("The check before the call"),
    ];
    assert_eq!(errors, expected);
}

#[tokio::test]
async fn a_call_of_the_peer_waits_until_the_peer_is_free() {
    let mut peer = FakePeer::new(false);
    peer.free = Some(Notify::new());
    let channel = JobChannel::new(peer);
    let mut turn = Box::pin(channel.acquire_turn());
    assert!(futures_util::poll!(&mut turn).is_pending());
    channel.peer().free.as_ref().unwrap().notify_one();
    drop(turn.await);
}

#[tokio::test]
async fn a_tool_without_a_peer_is_unavailable() {
    let context = CallContext::default();
    let tool = Arc::clone(executor().registry().get("greet").unwrap().tool());
    let failure = tool.call(JsonObject::new(), context).await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::Unavailable);
    let expected = "Tool 'greet' is PHP code, but no fake thread is available to run the code";
    assert_eq!(failure.message, expected);
}
