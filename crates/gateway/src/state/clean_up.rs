use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pillion_config::Config;
use pillion_core::store::{
    ApprovalStore, CallLog, ChatStore, IdempotencyStore, Retention, StepCheckpointStore,
    StoreError, Timestamp, UNFINISHED_KEY_TTL,
};
use pillion_store::{ClockHistory, SqlStore};

use super::interrupt_calls;
use crate::predecessors::ProcessRuns;
use crate::results::{Results, UNFINISHED_FILE_TTL};

/// Interval of the store's maintenance, such as removing old calls.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(600);

/// Maximum time between the use of an approval and the start of its call. After this time, the call
/// will never run.
const APPROVED_CALL_TTL: Duration = Duration::from_secs(60);

/// Time for which invalid approvals are kept.
const INVALID_APPROVAL_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Removes old records at intervals. The ages of records follow the store's [`ClockHistory`], so a
/// wrong system clock removes nothing early.
pub(super) struct CleanUp {
    store: Arc<SqlStore>,
    runs: ProcessRuns,
    retention: Retention,
    chat_ttl: Duration,
    approval_ttl: Duration,
    key_ttl: Duration,
    results: Option<Results>,
}

impl CleanUp {
    pub(super) fn new(
        store: Arc<SqlStore>,
        runs: ProcessRuns,
        config: &Config,
        results: Option<Results>,
    ) -> Self {
        Self {
            store,
            runs,
            retention: config.call_log.retention(),
            chat_ttl: config.chat.retention,
            approval_ttl: config.approvals.expires_after,
            key_ttl: config.http.idempotency_ttl,
            results,
        }
    }

    pub(super) async fn run(self) {
        loop {
            match self.store.clock().await {
                Ok(clock) => self.clean_up(&clock).await,
                Err(error) => tracing::warn!(%error, "Cannot remove old records"),
            }
            tokio::time::sleep(MAINTENANCE_INTERVAL).await;
        }
    }

    async fn clean_up(&self, clock: &ClockHistory) {
        self.remove_results(clock).await;
        // Repeated at intervals, because an earlier process that was not handed over may have
        // ended.
        if let Err(error) = interrupt_calls(&self.store, &self.runs).await {
            tracing::warn!(%error, "Cannot mark interrupted calls in the call log");
        }
        match self.remove_calls(clock).await {
            Ok(0) => {}
            Ok(calls) => tracing::info!(calls, "Removed old calls from the call log"),
            Err(error) => tracing::warn!(%error, "Cannot remove old calls from the call log"),
        }
        if let Some(before) = clock.before(self.chat_ttl)
            && let Err(error) = self.store.remove_old_chats(before).await
        {
            tracing::warn!(%error, "Cannot remove old chats");
        }
        let now = clock.settled_time(Timestamp::now());
        let cancelled = self
            .store
            .cancel_undecided(now.minus(APPROVED_CALL_TTL), now);
        if let Err(error) = cancelled.await {
            tracing::warn!(
                %error,
                "Cannot cancel calls whose approval has expired, or was used without the call running"
            );
        }
        if let Err(error) = self.remove_expired(clock).await {
            tracing::warn!(
                %error,
                "Cannot remove old idempotency keys, approvals and checkpoints of composed tools"
            );
        }
    }

    async fn remove_results(&self, clock: &ClockHistory) {
        let Some(results) = &self.results else { return };
        let finished = clock.before(results.ttl());
        let unfinished = clock.before(UNFINISHED_FILE_TTL);
        let finished = finished.map_or(UNIX_EPOCH, system_time);
        let unfinished = unfinished.map_or(UNIX_EPOCH, system_time);
        results.clean_up(finished, unfinished).await;
    }

    async fn remove_calls(&self, clock: &ClockHistory) -> Result<u64, StoreError> {
        let mut removed = 0;
        if let Some(age) = self.retention.max_age {
            removed += self.store.remove_expired_calls(age, clock).await?;
        }
        let sizes = Retention {
            max_age: None,
            ..self.retention.clone()
        };
        let pruned = self.store.prune_calls(&sizes, Timestamp::now()).await?;
        Ok(removed + pruned.calls)
    }

    async fn remove_expired(&self, clock: &ClockHistory) -> Result<(), StoreError> {
        // Unfinished keys are kept for longer, counted from the same time.
        let keys = clock.expired(self.key_ttl);
        let unfinished_keys = clock.expired(self.key_ttl + UNFINISHED_KEY_TTL);
        if let Some(keys) = keys.zip(unfinished_keys).map(|(one, other)| one.min(other)) {
            self.store.remove_expired_keys(keys).await?;
        }
        if let Some(expired) = clock.expired(self.approval_ttl) {
            self.store.remove_expired_step_checkpoints(expired).await?;
        }
        if let Some(before) = clock.before(self.approval_ttl + INVALID_APPROVAL_TTL) {
            let expired = before.plus(self.approval_ttl);
            self.store.remove_expired_approvals(expired).await?;
        }
        Ok(())
    }
}

fn system_time(at: Timestamp) -> SystemTime {
    let since = Duration::from_millis(u64::try_from(at.as_millis()).unwrap_or(0));
    UNIX_EPOCH + since
}
