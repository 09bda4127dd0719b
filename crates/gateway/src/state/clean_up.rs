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

/// Maximum time between the use of an approval and the start of the approved call. After this time,
/// the call will never run.
const APPROVED_CALL_TTL: Duration = Duration::from_secs(60);

/// Time for which approvals remain in the store after they are no longer valid.
const INVALID_APPROVAL_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Removes old records at intervals. The ages of records follow the store's [`ClockHistory`], so a
/// wrong system clock causes no early removal.
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
            match self.store.record_clock_reading().await {
                Ok(clock) => self.clean_up(&clock).await,
                Err(error) => tracing::warn!(%error, "Cannot remove old records"),
            }
            tokio::time::sleep(MAINTENANCE_INTERVAL).await;
        }
    }

    async fn clean_up(&self, clock: &ClockHistory) {
        self.remove_results(clock).await;
        // The check for interrupted calls is repeated at each interval, because an earlier process
        // that is missing from `predecessors` may have ended unnoticed, with unfinished calls.
        if let Err(error) = interrupt_calls(&self.store, &self.runs).await {
            tracing::warn!(%error, "Cannot mark interrupted calls in the call log");
        }
        match self.remove_calls(clock).await {
            Ok(0) => {}
            Ok(calls) => tracing::info!(calls, "Removed old calls from the call log"),
            Err(error) => tracing::warn!(%error, "Cannot remove old calls from the call log"),
        }
        if let Some(cutoff) = clock.cutoff_for_age(self.chat_ttl)
            && let Err(error) = self.store.remove_old_chats(cutoff).await
        {
            tracing::warn!(%error, "Cannot remove old chats");
        }
        let now = clock.settled_time(Timestamp::now());
        let approved_before = now.minus(APPROVED_CALL_TTL);
        if let Err(error) = self
            .store
            .cancel_undecided_calls(approved_before, now)
            .await
        {
            tracing::warn!(
                %error,
                "Cannot cancel the calls whose approval has expired, or was used although the call \
                 never started"
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
        let cutoff = |age| clock.cutoff_for_age(age).map_or(UNIX_EPOCH, to_system_time);
        results
            .clean_up(cutoff(results.ttl()), cutoff(UNFINISHED_FILE_TTL))
            .await;
    }

    async fn remove_calls(&self, clock: &ClockHistory) -> Result<u64, StoreError> {
        let mut removed_calls = 0;
        if let Some(age) = self.retention.max_age {
            removed_calls += self.store.remove_expired_calls(age, clock).await?;
        }
        let size_limits = Retention {
            max_age: None,
            ..self.retention.clone()
        };
        let now = Timestamp::now();
        let prune_result = self.store.prune_calls(&size_limits, now).await?;
        Ok(removed_calls + prune_result.calls)
    }

    async fn remove_expired(&self, clock: &ClockHistory) -> Result<(), StoreError> {
        // One query removes all idempotency keys that expired before a given time. Keys of
        // unfinished requests are removed `UNFINISHED_KEY_TTL` later, so the earlier of the two
        // cutoff times is used.
        let expired_until = clock.expired_until(self.key_ttl);
        let unfinished_until = clock.expired_until(self.key_ttl + UNFINISHED_KEY_TTL);
        if let (Some(expired_until), Some(unfinished_until)) = (expired_until, unfinished_until) {
            let cutoff = expired_until.min(unfinished_until);
            self.store.remove_expired_keys(cutoff).await?;
        }
        if let Some(cutoff) = clock.expired_until(self.approval_ttl) {
            self.store.remove_expired_step_checkpoints(cutoff).await?;
        }
        if let Some(cutoff) = clock.cutoff_for_age(self.approval_ttl + INVALID_APPROVAL_TTL) {
            let expired_before = cutoff.plus(self.approval_ttl);
            self.store.remove_expired_approvals(expired_before).await?;
        }
        Ok(())
    }
}

fn to_system_time(at: Timestamp) -> SystemTime {
    let since_epoch = Duration::from_millis(u64::try_from(at.as_millis()).unwrap_or(0));
    UNIX_EPOCH + since_epoch
}
