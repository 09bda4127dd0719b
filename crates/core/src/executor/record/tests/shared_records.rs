//! Calls that wait for one approval share a record. Whichever call runs or is given up, each record
//! ends, and the call that runs is in the log.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::executor::SpendFuture;

/// Pseudorandom numbers that depend only on a seed.
#[derive(Clone)]
struct Numbers(Arc<Mutex<u64>>);

impl Numbers {
    fn below(&self, limit: u64) -> u64 {
        let mut state = self.0.lock();
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % limit
    }

    async fn pause(&self) {
        tokio::time::sleep(Duration::from_millis(self.below(8))).await;
    }
}

/// One approval for one call, which a person grants after a while.
struct OneApproval {
    log: Arc<Written>,
    numbers: Numbers,
    waiting: Mutex<Option<CallId>>,
    is_granted: AtomicBool,
    is_spent: AtomicBool,
}

impl OneApproval {
    /// Ends the record of the call that requested the approval, if another record runs.
    async fn close_unless(&self, running: Option<CallId>) {
        let first = self.waiting.lock().filter(|first| running != Some(*first));
        if let Some(mut record) = first.and_then(|id| {
            let records = self.log.records.lock();
            records.iter().rfind(|record| record.id == id).cloned()
        }) {
            record.status = CallStatus::Cancelled;
            record.completed_at = Some(Timestamp::now());
            drop(self.log.record_waiting_call(record).await);
        }
    }
}

struct Shared(Arc<OneApproval>);

impl Approver for Shared {
    fn decide(&self, request: ApprovalRequest) -> ApprovalFuture {
        let this = Arc::clone(&self.0);
        Box::pin(async move {
            this.numbers.pause().await;
            let call = request.call;
            this.waiting.lock().get_or_insert_with(|| call.unwrap());
            while !this.is_granted.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            this.numbers.pause().await;
            Ok(Decision::Approved)
        })
    }

    fn waiting_call(&self, _: &ApprovalRequest) -> WaitingCallFuture {
        let this = Arc::clone(&self.0);
        Box::pin(async move {
            this.numbers.pause().await;
            let is_spent = this.is_spent.load(Ordering::Relaxed);
            Ok(this.waiting.lock().filter(|_| !is_spent))
        })
    }

    fn spend(&self, request: &ApprovalRequest) -> SpendFuture {
        let (this, call) = (Arc::clone(&self.0), request.call);
        Box::pin(async move {
            this.numbers.pause().await;
            let was_spent = this.is_spent.swap(true, Ordering::Relaxed);
            this.numbers.pause().await;
            if was_spent {
                let code = ErrorCode::ApprovalRequired;
                return Err(ToolFailure::new(code, "It is used up"));
            }
            this.close_unless(call).await;
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn each_record_ends_whichever_of_the_waiting_calls_runs() {
    for seed in 0..1_000 {
        let numbers = Numbers(Arc::new(Mutex::new(seed)));
        let log = Arc::<Written>::default();
        let approval = Arc::new(OneApproval {
            log: Arc::clone(&log),
            numbers: numbers.clone(),
            waiting: Mutex::default(),
            is_granted: AtomicBool::new(false),
            is_spent: AtomicBool::new(false),
        });
        let plain = executor(&log);
        let mut config = ExecutorConfig::default();
        config.approvals.default = ApprovalPolicy::AlwaysAsk;
        let hooks = ExecutorHooks {
            approver: Some(Arc::new(Shared(Arc::clone(&approval)))),
            ..plain.shared.hooks.clone()
        };
        let executor = plain.reconfigured(config, hooks);
        let calls: Vec<_> = (0..4)
            .map(|_| {
                let (executor, numbers) = (executor.clone(), numbers.clone());
                let context = CallContext {
                    record: (numbers.below(3) == 0).then(CallId::new),
                    ..CallContext::default()
                };
                let prescribed = context.record;
                let timeout = Duration::from_millis(match numbers.below(3) {
                    0 => numbers.below(60),
                    _ => 3_600_000,
                });
                tokio::spawn(async move {
                    numbers.pause().await;
                    let call = ToolCall::new("c", "echo", json!({}));
                    let run = executor.execute_one(call, &context);
                    let result = tokio::time::timeout(timeout, run).await.ok();
                    (prescribed, result)
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(30)).await;
        approval.is_granted.store(true, Ordering::Relaxed);
        let mut results = Vec::new();
        for call in calls {
            results.push(call.await.unwrap());
        }
        // Waits until the ends of the abandoned calls are written.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let ends = log.last_statuses();
        let what = format!("seed {seed}: {results:?}, {ends:?}");
        assert!(ends.values().all(|status| status.is_final()), "{what}");
        for (prescribed, result) in &results {
            let Some(result) = result else { continue };
            assert!(!result.metadata.contains_key("recorded"), "{what}");
            let id = result.metadata["record_id"].as_str().unwrap();
            let record: CallId = id.parse().unwrap();
            let expected = match result.success {
                true => CallStatus::Success,
                false => CallStatus::Error,
            };
            assert_eq!(ends[&record], expected, "{what}");
            if let (Some(id), true) = (prescribed, result.success) {
                assert_eq!(record, *id, "{what}");
            }
        }
        let succeeded = |status: &&CallStatus| **status == CallStatus::Success;
        let successes = results
            .iter()
            .flat_map(|(_, result)| result)
            .filter(|result| result.success)
            .count();
        assert_eq!(ends.values().filter(succeeded).count(), successes, "{what}");
    }
}
