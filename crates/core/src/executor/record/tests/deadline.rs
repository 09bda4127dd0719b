//! A call ends in time whatever the stores do: each operation of a call hangs once.

use std::sync::atomic::AtomicBool;

use tokio::time::Instant;

use super::*;
use crate::executor::{
    CacheConfig, CacheRule, CacheScope, OversizedResult, RESPONSE_ALLOWANCE, ResultStore,
    SpendFuture, StoreResultFuture, StoredResult,
};

const TIMEOUT: Duration = Duration::from_secs(1);

/// A store that approves calls and stores results, and hangs like its log.
struct Store {
    log: Arc<Written>,
    /// How long the person takes to decide.
    person_takes: Duration,
    /// The call that already waits for the approval.
    waiting: Option<CallId>,
    is_spent: Arc<AtomicBool>,
}

impl Approver for Store {
    fn decide(&self, request: ApprovalRequest) -> ApprovalFuture {
        let (log, takes) = (Arc::clone(&self.log), self.person_takes);
        Box::pin(async move {
            let counted = request.clock.count();
            log.operate().await;
            drop(counted);
            tokio::time::sleep(takes).await;
            let _counted = request.clock.count();
            log.operate().await;
            Ok(Decision::Approved)
        })
    }

    fn waiting_call(&self, _: &ApprovalRequest) -> WaitingCallFuture {
        let (log, waiting) = (Arc::clone(&self.log), self.waiting);
        Box::pin(async move {
            log.operate().await;
            Ok(waiting)
        })
    }

    fn spend(&self, _: &ApprovalRequest) -> SpendFuture {
        let (log, is_spent) = (Arc::clone(&self.log), Arc::clone(&self.is_spent));
        Box::pin(async move {
            log.operate().await;
            is_spent.store(true, Ordering::Relaxed);
            Ok(())
        })
    }
}

impl ResultStore for Store {
    fn put(&self, _: OversizedResult) -> StoreResultFuture {
        let log = Arc::clone(&self.log);
        Box::pin(async move {
            log.operate().await;
            Ok(StoredResult {
                id: "1".to_owned(),
                bytes: 4_000,
                media_type: "text/plain".to_owned(),
                url: "/1".to_owned(),
            })
        })
    }
}

/// What a call uses besides the call log.
#[derive(Debug, Clone, Copy, Default)]
struct Uses {
    approval: bool,
    /// Whether another call already waits for the approval.
    earlier_call: bool,
    cache: bool,
    result_store: bool,
}

fn executor_with(log: &Arc<Written>, uses: Uses, takes: Duration) -> (Executor, Arc<AtomicBool>) {
    let plain = executor(log);
    let mut config = ExecutorConfig {
        timeout: TIMEOUT,
        ..ExecutorConfig::default()
    };
    if uses.approval || uses.earlier_call {
        config.approvals.default = ApprovalPolicy::AlwaysAsk;
    }
    if uses.cache {
        let rule = CacheRule {
            ttl: Duration::from_secs(3600),
            scope: CacheScope::Private,
        };
        config.cache = CacheConfig::default();
        config.cache.tools.insert("echo".to_owned(), rule);
    }
    if uses.result_store {
        config.max_result_bytes = Some(2_048);
    }
    let waiting = uses.earlier_call.then(|| {
        let process = plain.shared.hooks.journal.as_ref().unwrap().process.clone();
        let mut record = ToolCallRecord::begin(process, "echo", String::new());
        record.status = CallStatus::Pending;
        let id = record.id;
        log.write(record).unwrap();
        id
    });
    let is_spent = Arc::new(AtomicBool::new(false));
    let store = Arc::new(Store {
        log: Arc::clone(log),
        person_takes: takes,
        waiting,
        is_spent: Arc::clone(&is_spent),
    });
    let hooks = ExecutorHooks {
        approver: Some(Arc::<Store>::clone(&store)),
        result_store: Some(store),
        ..plain.shared.hooks.clone()
    };
    (plain.reconfigured(config, hooks), is_spent)
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_in_time_whichever_operation_of_a_store_hangs() {
    let uses = (0..16).map(|set| Uses {
        approval: set & 1 != 0,
        earlier_call: set & 2 != 0,
        cache: set & 4 != 0,
        result_store: set & 8 != 0,
    });
    for uses in uses {
        let arguments = match uses.result_store {
            true => json!({"text": "x".repeat(4_000)}),
            false => json!({"text": "x"}),
        };
        let mut first = 0;
        loop {
            let log = Arc::<Written>::default();
            let (executor, is_spent) = executor_with(&log, uses, Duration::ZERO);
            *log.hangs_at.lock() = Some(first);
            let began = Instant::now();
            let result = call(&executor, "echo", arguments.clone()).await;
            let took = began.elapsed();
            let what = format!("{uses:?}, operation {first}: {took:?}, {result:?}");
            let max_time = TIMEOUT + RESPONSE_ALLOWANCE + Duration::from_millis(50);
            assert!(took <= max_time, "{what}");
            let has_run = log.statuses().contains(&CallStatus::Running);
            let is_stored = !uses.result_store || result.metadata.contains_key("stored_result");
            assert_eq!(result.success, has_run && is_stored, "{what}");
            // A large result that cannot be stored is returned in part.
            assert_eq!(result.result.is_null(), !has_run, "{what}");
            if log.operations.load(Ordering::Relaxed) <= first {
                break;
            }
            let is_recorded = !result.metadata.contains_key("recorded");
            assert!(!is_recorded, "{what}");
            // The end is written once the log responds again.
            log.respond();
            tokio::time::sleep(Duration::from_secs(5)).await;
            let ends = log.last_statuses();
            let (&last, _) = ends.iter().rfind(|(_, status)| status.is_final()).unwrap();
            assert_eq!(ends[&last], CallStatus::from_result(&result), "{what}");
            // The earlier call waits until the approval is used up.
            let waits = uses.earlier_call && !is_spent.load(Ordering::Relaxed);
            let unfinished = ends.values().filter(|status| !status.is_final()).count();
            assert_eq!(unfinished, usize::from(waits), "{what}: {ends:?}");
            first += 1;
        }
        assert!(first >= 2, "{uses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_person_does_not_count_but_that_of_the_store_does() {
    let log = Arc::<Written>::default();
    let uses = Uses {
        approval: true,
        ..Uses::default()
    };
    let (executor, _) = executor_with(&log, uses, Duration::from_secs(600));
    let result = call(&executor, "echo", json!({})).await;
    assert!(result.success, "{result:?}");
    assert!(!result.metadata.contains_key("recorded"), "{result:?}");
    // The log hangs at the operation after the person's decision.
    let log = Arc::<Written>::default();
    *log.hangs_at.lock() = Some(3);
    let (executor, _) = executor_with(&log, uses, Duration::from_secs(600));
    let began = Instant::now();
    let result = call(&executor, "echo", json!({})).await;
    let code = result.error_code;
    assert_eq!(code, Some(ErrorCode::Unavailable), "{result:?}");
    let took = began.elapsed() - Duration::from_secs(600);
    assert!(took <= TIMEOUT + Duration::from_millis(150), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_call_is_written_although_the_log_rejects_it_at_first() {
    let log = Arc::<Written>::default();
    let executor = executor(&log);
    let calls = {
        let (log, executor) = (Arc::clone(&log), executor.clone());
        tokio::spawn(async move {
            let result = call(&executor, "sleeps", json!({})).await;
            drop(log);
            result
        })
    };
    while log.statuses().is_empty() {
        tokio::task::yield_now().await;
    }
    *log.is_full.lock() = true;
    let result = calls.await.unwrap();
    assert_eq!(result.error_code, Some(ErrorCode::Timeout));
    assert_eq!(result.metadata["recorded"], json!(false));
    tokio::time::sleep(Duration::from_secs(20)).await;
    *log.is_full.lock() = false;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let expected = [CallStatus::Running, CallStatus::from_result(&result)];
    assert_eq!(log.statuses(), expected);
}
