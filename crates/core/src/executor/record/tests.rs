mod deadline;
mod observer;
mod shared_records;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use indexmap::IndexMap;
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::executor::{
    ApprovalFuture, ApprovalPolicy, ApprovalRequest, Approver, Decision, Executor, ExecutorConfig,
    ExecutorHooks, WaitingCallFuture,
};
use crate::registry::ToolRegistry;
use crate::store::{
    CallCounts, CallFilter, CallGrouping, CallId, CallStatistics, CallStatus, PageRequest,
    PruneOutcome, RateLimitRecord, RecordPage, Retention, StoreError, Timestamp,
};
use crate::tests::{add, add_echo, definition};
use crate::tool::{ErrorCode, ToolFailure, ToolOutput, ToolResult};

/// A call log in memory that can reject writes. Like a store, the log does not overwrite the end of
/// a call with another end.
#[derive(Default)]
struct Written {
    records: Mutex<Vec<ToolCallRecord>>,
    /// The writes for which no caller waits any more.
    unfinished: Mutex<Vec<ToolCallRecord>>,
    is_full: Mutex<bool>,
    /// How long a rejected write takes.
    rejects_after: Mutex<Duration>,
    /// The index of the first operation that does not return. Later operations do not return
    /// either.
    hangs_at: Mutex<Option<usize>>,
    operations: AtomicUsize,
}

#[async_trait]
impl CallLog for Written {
    async fn record_call(&self, call: ToolCallRecord) -> Result<(), StoreError> {
        let unfinished = Unfinished(self, Some(call));
        self.operate().await;
        let call = unfinished.finish();
        if *self.is_full.lock() {
            let after = *self.rejects_after.lock();
            tokio::time::sleep(after).await;
            return Err(StoreError::unavailable("The disk is full"));
        }
        self.write(call)
    }

    async fn record_waiting_call(&self, call: ToolCallRecord) -> Result<(), StoreError> {
        if self.last_statuses().get(&call.id) == Some(&CallStatus::Running) {
            return Err(StoreError::conflict("The call runs"));
        }
        self.record_call(call).await
    }

    async fn find_call(&self, id: CallId) -> Result<Option<ToolCallRecord>, StoreError> {
        let records = self.records.lock();
        Ok(records.iter().rfind(|call| call.id == id).cloned())
    }

    async fn calls(
        &self,
        _: &CallFilter,
        _: &PageRequest,
    ) -> Result<RecordPage<ToolCallRecord>, StoreError> {
        Err(StoreError::unavailable("not asked for here"))
    }

    async fn counted_calls(
        &self,
        _: &str,
        _: Timestamp,
        _: &PageRequest,
    ) -> Result<RecordPage<RateLimitRecord>, StoreError> {
        Err(StoreError::unavailable("not asked for here"))
    }

    async fn call_statistics(
        &self,
        _: &CallFilter,
        _: CallGrouping,
    ) -> Result<Vec<CallStatistics>, StoreError> {
        Ok(Vec::new())
    }

    async fn count_calls(
        &self,
        _: &CallFilter,
        _: &[Timestamp],
    ) -> Result<Vec<CallCounts>, StoreError> {
        Ok(Vec::new())
    }

    async fn unfinished_processes(&self, _: &str) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    async fn interrupt_run(&self, _: &ProcessRun, _: Timestamp) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn cancel_undecided_calls(&self, _: Timestamp, _: Timestamp) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn prune_calls(&self, _: &Retention, _: Timestamp) -> Result<PruneOutcome, StoreError> {
        Ok(PruneOutcome::default())
    }

    async fn may_have_removed_call(&self, _: CallId) -> Result<bool, StoreError> {
        Ok(false)
    }
}

impl Written {
    /// Counts an operation, and waits while the log hangs.
    async fn operate(&self) {
        let number = self.operations.fetch_add(1, Ordering::Relaxed);
        while self.hangs_at.lock().is_some_and(|first| number >= first) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn write(&self, call: ToolCallRecord) -> Result<(), StoreError> {
        let mut records = self.records.lock();
        let known = records.iter().rfind(|known| known.id == call.id);
        match known.filter(|known| known.status.is_final()) {
            None => records.push(call),
            Some(old) if old.status == call.status && old.completed_at == call.completed_at => {}
            Some(_) => return Err(StoreError::conflict("The call has another end")),
        }
        Ok(())
    }

    /// Makes the log respond again: the unfinished writes take effect.
    fn respond(&self) {
        for call in self.unfinished.lock().drain(..) {
            drop(self.write(call));
        }
        *self.hangs_at.lock() = None;
    }

    /// Returns the last status of each record.
    fn last_statuses(&self) -> IndexMap<CallId, CallStatus> {
        let records = self.records.lock();
        let statuses = records.iter().map(|record| (record.id, record.status));
        statuses.collect()
    }

    fn statuses(&self) -> Vec<CallStatus> {
        let records = self.records.lock();
        records.iter().map(|record| record.status).collect()
    }
}

/// A write that takes effect although its caller no longer waits.
struct Unfinished<'a>(&'a Written, Option<ToolCallRecord>);

impl Unfinished<'_> {
    fn finish(mut self) -> ToolCallRecord {
        self.1.take().unwrap()
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.unfinished.lock().extend(self.1.take());
    }
}

/// Returns an executor with a journal; its tools add an entry to the log when they run.
fn executor(log: &Arc<Written>) -> Executor {
    let registry = ToolRegistry::new();
    add_echo(&registry, definition("echo"));
    add(&registry, definition("fails"), |_, _| async {
        Err(ToolFailure::new(ErrorCode::Denied, "No"))
    });
    add(&registry, definition("sleeps"), |_, _| async {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        Ok(ToolOutput::text(""))
    });
    recorded_executor(log, registry, Redaction::default())
}

fn recorded_executor(log: &Arc<Written>, registry: ToolRegistry, redaction: Redaction) -> Executor {
    let process = ProcessRun {
        owner: "test".to_owned(),
        run_id: "1".to_owned(),
    };
    let journal = Journal::new(Arc::<Written>::clone(log), process, redaction);
    let hooks = ExecutorHooks {
        journal: Some(journal),
        ..ExecutorHooks::default()
    };
    Executor::with_hooks(Arc::new(registry), ExecutorConfig::default(), hooks)
}

async fn call(executor: &Executor, name: &str, arguments: serde_json::Value) -> ToolResult {
    let context = CallContext {
        caller: Some("rest".to_owned()),
        ..CallContext::for_user("alice")
    };
    crate::tests::call(executor, name, arguments, &context).await
}

#[tokio::test]
async fn f4_a_call_is_recorded_before_it_runs_and_when_it_ends() {
    let log = Arc::<Written>::default();
    let executor = executor(&log);
    let result = call(&executor, "echo", json!({"n": 1, "api_key": "hunter2"})).await;
    assert!(result.success);
    let records = log.records.lock();
    let [begun, ended] = &records[..] else {
        panic!("{records:?}")
    };
    assert_eq!((begun.status, &begun.result), (CallStatus::Running, &None));
    let redacted = r#"{"n":1,"api_key":"[redacted]"}"#;
    assert_eq!(begun.arguments, redacted, "L1");
    assert_eq!(begun.user.as_deref(), Some("alice"));
    assert_eq!(begun.caller.as_deref(), Some("rest"));
    assert_eq!((ended.id, ended.status), (begun.id, CallStatus::Success));
    assert_eq!(ended.result.as_deref(), Some(redacted));
    assert!(ended.duration.is_some() && ended.completed_at.is_some());
    assert_eq!(result.metadata["record_id"], json!(ended.id.to_string()));
}

/// A model has encoded the arguments twice, so that the original has no keys to redact.
#[tokio::test]
async fn f4_repaired_arguments_are_recorded_and_redacted() {
    let log = Arc::<Written>::default();
    let executor = executor(&log);
    for (arguments, recorded) in [
        (json!({"n": 1}), r#"{"n":1}"#),
        (
            json!({"n": 1, "api_key": "hunter2"}),
            r#"{"n":1,"api_key":"[redacted]"}"#,
        ),
    ] {
        let twice = json!(arguments.to_string()).to_string();
        let context = CallContext {
            is_by_model: true,
            ..CallContext::default()
        };
        let result = crate::tests::call(&executor, "echo", json!(twice), &context).await;
        assert!(result.success);
        let records = log.records.lock();
        let last = records.last().unwrap();
        assert_eq!(last.repaired_arguments.as_deref(), Some(recorded));
        assert_eq!(last.arguments, recorded);
    }
}

#[tokio::test]
async fn f4_a_call_that_does_not_run_is_recorded_with_its_reason() {
    let log = Arc::<Written>::default();
    let executor = executor(&log);
    call(&executor, "unknown", json!("{bad")).await;
    call(&executor, "fails", json!({})).await;
    let records = log.records.lock();
    let seen: Vec<_> = records
        .iter()
        .map(|record| (record.tool.as_str(), record.status, record.error_code))
        .collect();
    let expected = [
        ("unknown", CallStatus::Error, Some(ErrorCode::NotFound)),
        ("fails", CallStatus::Running, None),
        ("fails", CallStatus::Denied, Some(ErrorCode::Denied)),
    ];
    assert_eq!(seen, expected);
    assert_eq!(records[0].arguments, r#"{"unreadable_bytes":4}"#);
}

#[tokio::test]
async fn f4_a_dropped_call_is_recorded_as_cancelled() {
    let log = Arc::<Written>::default();
    let executor = executor(&log);
    let given_up = call(&executor, "sleeps", json!({}));
    let outcome = tokio::time::timeout(Duration::from_millis(50), given_up).await;
    assert!(outcome.is_err());
    while log.statuses().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(log.statuses(), [CallStatus::Running, CallStatus::Cancelled]);
}

#[tokio::test]
async fn a_tool_does_not_run_unless_its_call_is_recorded() {
    let log = Arc::<Written>::default();
    let executor = executor(&log);
    *log.is_full.lock() = true;
    let result = call(&executor, "echo", json!({})).await;
    assert_eq!(result.error_code, Some(ErrorCode::Unavailable));
    assert_eq!(result.metadata["recorded"], json!(false));
    *log.is_full.lock() = false;
    assert!(call(&executor, "echo", json!({})).await.success);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_call_waits_once_for_a_log_that_does_not_respond() {
    let log = Arc::<Written>::default();
    let executor = executor(&log);
    *log.is_full.lock() = true;
    *log.rejects_after.lock() = Duration::from_secs(2);
    let began = tokio::time::Instant::now();
    let result = call(&executor, "echo", json!({})).await;
    assert_eq!(result.error_code, Some(ErrorCode::Unavailable));
    assert_eq!(result.metadata["recorded"], json!(false));
    let waited = began.elapsed();
    assert!(waited < Duration::from_millis(2_200), "{waited:?}");
    // The end is written once the log can be written again.
    *log.is_full.lock() = false;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(log.statuses(), [CallStatus::Error]);
}

#[test]
fn arguments_and_results_that_are_too_long_are_recorded_by_size() {
    let redaction = Redaction {
        max_bytes: 20,
        ..Redaction::default()
    };
    let long = json!({"text": "x".repeat(100)});
    assert_eq!(redaction.arguments(&long), r#"{"omitted_bytes":111}"#);
    assert_eq!(redaction.result(&json!(null)), None);
}

#[tokio::test]
async fn l1_error_data_is_redacted_like_a_result() {
    let run = async |text: &'static str, redaction: Redaction| {
        let log = Arc::<Written>::default();
        let registry = ToolRegistry::new();
        add(&registry, definition("wails"), move |_, _| async move {
            // The executor uses this code for its own failures, too.
            Err(ToolFailure::new(ErrorCode::Unavailable, text))
        });
        let executor = recorded_executor(&log, registry, redaction);
        let result = call(&executor, "wails", json!({})).await;
        assert_eq!(result.error.as_deref(), Some(text), "the caller reads it");
        let records = log.records.lock();
        records.last().unwrap().error.clone().unwrap()
    };
    let all = Redaction::default();
    assert_eq!(run("no dice", all.clone()).await, "no dice");
    let keyed = r#"{"why":"no","password":"hunter2"}"#;
    let redacted = r#"{"why":"no","password":"[redacted]"}"#;
    assert_eq!(run(keyed, all.clone()).await, redacted);
    let long: &str = "\u{e9}".repeat(5_000).leak();
    let start = "\u{e9}".repeat(2_048);
    let truncated = format!("{start} [truncated: 10000 bytes in total]");
    assert_eq!(run(long, all.clone()).await, truncated);
    let short = Redaction {
        max_bytes: 3,
        ..all.clone()
    };
    let truncated = "\u{e9} [truncated: 10000 bytes in total]";
    assert_eq!(run(long, short).await, truncated);
    let no_results = Redaction {
        results: false,
        ..all
    };
    assert_eq!(run("no dice", no_results).await, "[redacted]");
}

/// Returns the same decision for every call, and reports the call with this ID as already waiting.
struct Known(CallId, Decision);

impl Approver for Known {
    fn decide(&self, _: ApprovalRequest) -> ApprovalFuture {
        let decision = self.1.clone();
        Box::pin(async move { Ok(decision) })
    }

    fn waiting_call(&self, _: &ApprovalRequest) -> WaitingCallFuture {
        let id = self.0;
        Box::pin(async move { Ok(Some(id)) })
    }
}

/// Returns an executor whose calls all need approval.
fn asking(log: &Arc<Written>, approver: Known) -> Executor {
    let plain = executor(log);
    let mut config = ExecutorConfig::default();
    config.approvals.default = ApprovalPolicy::AlwaysAsk;
    let hooks = ExecutorHooks {
        approver: Some(Arc::new(approver)),
        ..plain.shared.hooks.clone()
    };
    plain.reconfigured(config, hooks)
}

#[tokio::test]
async fn g3_a_repeated_call_continues_the_record_of_the_first_call() {
    for (decision, statuses) in [
        (Decision::Undecided, &[][..]),
        (Decision::Denied, &[]),
        (
            Decision::Approved,
            &[CallStatus::Running, CallStatus::Success],
        ),
    ] {
        let log = Arc::<Written>::default();
        let waiting = CallId::new();
        let executor = asking(&log, Known(waiting, decision.clone()));
        let call = ToolCall::new("c", "echo", json!({}));
        let result = executor.execute_one(call, &CallContext::default()).await;
        assert_eq!(result.metadata["record_id"], json!(waiting.to_string()));
        assert_eq!(log.statuses(), statuses, "{decision:?}");
    }
}

#[tokio::test]
async fn g3_a_call_with_a_separate_record_does_not_wait_in_another_record() {
    let log = Arc::<Written>::default();
    let own = CallId::new();
    for (waiting, end) in [
        (own, CallStatus::Pending),
        (CallId::new(), CallStatus::Error),
    ] {
        let executor = asking(&log, Known(waiting, Decision::Undecided));
        let context = CallContext {
            record: Some(own),
            ..CallContext::default()
        };
        let call = ToolCall::new("c", "echo", json!({}));
        let result = executor.execute_one(call, &context).await;
        assert_eq!(result.error_code, Some(ErrorCode::ApprovalRequired));
        assert_eq!(result.metadata["record_id"], json!(own.to_string()));
        assert_eq!(log.statuses().last(), Some(&end));
    }
}
