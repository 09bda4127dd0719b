use async_trait::async_trait;
use pillion_core::store::{
    CallCounts, CallFilter, CallGrouping, CallId, CallLog, CallStatistics, PageRequest, ProcessRun,
    PruneOutcome, RateLimitRecord, RecordPage, Retention, StoreError, Timestamp, ToolCallRecord,
};
use sqlx::AssertSqlSafe;

use super::{batch, query, record, retention, spool, statistics};
use crate::Result;
use crate::sql_store::SqlStore;

/// The condition for calls of the owner `$1` that have not ended. SQLite uses the partial index,
/// which excludes the status `success`, only if a query contains this condition.
const UNFINISHED_CONDITION: &str =
    "owner = $1 AND status IN ('pending', 'running') AND status <> 'success'";

#[async_trait]
impl CallLog for SqlStore {
    async fn record_call(&self, call: ToolCallRecord) -> Result<()> {
        // The spool file stores the end of a call that has run if the database cannot be written.
        let spool = self.call_spool.as_ref().filter(|_| spool::has_run(&call));
        let fallback = spool.map(|spool| (spool, call.clone()));
        let mut outcome = self.call_writer.write(call).await;
        if let Some((spool, call)) = fallback
            && outcome.as_ref().is_err_and(StoreError::is_unavailable)
        {
            outcome = spool.append(call).await;
        }
        self.note_outcome(outcome)
    }

    async fn record_local_call(&self, call: ToolCallRecord) -> Result<()> {
        self.note_outcome(match &self.call_spool {
            Some(spool) => spool.append(call).await,
            None => self.call_writer.write(call).await,
        })
    }

    async fn record_waiting_call(&self, call: ToolCallRecord) -> Result<()> {
        let outcome = batch::write_waiting(&self.database, &self.clock, &call).await;
        self.note_outcome(outcome)
    }

    async fn find_call(&self, id: CallId) -> Result<Option<ToolCallRecord>> {
        self.catch_up_if_possible().await;
        if let Some(call) = self.find_unwritten_call(id) {
            return Ok(Some(call));
        }
        let sql = "SELECT * FROM tool_calls WHERE id = $1";
        let mut row = self.database.read_one(sql, vec![id.into()]).await?;
        if row.is_none() {
            // The records of ended processes are written to the database first, because another
            // process may have recorded the call and exited before its records were in the
            // database.
            self.flush_ended_processes().await?;
            row = self.database.read_one(sql, vec![id.into()]).await?;
        }
        row.as_ref().map(record::read_call).transpose()
    }

    async fn calls(
        &self,
        filter: &CallFilter,
        page: &PageRequest,
    ) -> Result<RecordPage<ToolCallRecord>> {
        self.catch_up_if_possible().await;
        let unwritten_calls = self
            .call_spool
            .as_ref()
            .and_then(|spool| spool.find_unwritten_calls(filter));
        query::read_calls(&self.database, filter, page, unwritten_calls).await
    }

    async fn counted_calls(
        &self,
        owner: &str,
        from_time: Timestamp,
        page: &PageRequest,
    ) -> Result<RecordPage<RateLimitRecord>> {
        if page.after.is_none() {
            self.flush_ended_processes().await?;
        }
        query::read_counted_calls(&self.database, owner, from_time, page).await
    }

    async fn call_statistics(
        &self,
        filter: &CallFilter,
        grouping: CallGrouping,
    ) -> Result<Vec<CallStatistics>> {
        self.catch_up_if_possible().await;
        statistics::read_groups(&self.database, filter, grouping).await
    }

    async fn count_calls(
        &self,
        filter: &CallFilter,
        boundaries: &[Timestamp],
    ) -> Result<Vec<CallCounts>> {
        self.catch_up_if_possible().await;
        statistics::count_by_interval(&self.database, filter, boundaries).await
    }

    async fn unfinished_processes(&self, owner: &str) -> Result<Vec<String>> {
        self.flush_ended_processes().await?;
        let sql = format!("SELECT DISTINCT run_id FROM tool_calls WHERE {UNFINISHED_CONDITION}");
        let rows = self
            .database
            .read(AssertSqlSafe(sql), vec![owner.into()])
            .await?;
        rows.iter().map(|row| row.text("run_id")).collect()
    }

    async fn interrupt_run(&self, run: &ProcessRun, interrupted_at: Timestamp) -> Result<u64> {
        self.flush_ended_processes().await?;
        let sql = format!(
            "UPDATE tool_calls SET status = 'interrupted', completed_at = $2, \
             error = 'The sidecar ended before the call did' \
             WHERE {UNFINISHED_CONDITION} AND run_id = $4 AND (status = 'running' \
             OR NOT EXISTS (SELECT 1 FROM approvals \
             WHERE approvals.call_id = tool_calls.id AND approvals.used_at IS NULL \
             AND approvals.expires_at > $3 \
             AND (approvals.verdict IS NULL OR approvals.verdict = 'approved')))"
        );
        let values = vec![
            run.owner.as_str().into(),
            interrupted_at.into(),
            self.record_clock_reading()
                .await?
                .settled_time(interrupted_at)
                .into(),
            run.run_id.as_str().into(),
        ];
        self.database.write(AssertSqlSafe(sql), values).await
    }

    async fn cancel_undecided_calls(
        &self,
        expired_before: Timestamp,
        now: Timestamp,
    ) -> Result<u64> {
        let sql = "UPDATE tool_calls SET status = 'cancelled', completed_at = $2, \
                   error = 'The approval that the call waited for has expired', \
                   error_code = 'cancelled' \
                   WHERE status = 'pending' AND id IN (SELECT call_id FROM approvals \
                   WHERE expires_at < $1 OR used_at < $1) \
                   AND NOT EXISTS (SELECT 1 FROM approvals \
                   WHERE approvals.call_id = tool_calls.id AND approvals.used_at IS NULL \
                   AND approvals.expires_at > $2 \
                   AND (approvals.verdict IS NULL OR approvals.verdict = 'approved'))";
        self.database
            .write(sql, vec![expired_before.into(), now.into()])
            .await
    }

    async fn prune_calls(&self, retention: &Retention, now: Timestamp) -> Result<PruneOutcome> {
        self.catch_up_if_possible().await;
        retention::prune(&self.database, retention, now).await
    }

    async fn may_have_removed_call(&self, id: CallId) -> Result<bool> {
        let sql = "SELECT 1 AS present FROM removed_calls WHERE newest >= $1";
        let row = self.database.read_one(sql, vec![id.into()]).await?;
        Ok(row.is_some())
    }
}

impl SqlStore {
    /// Returns the current state of the call, if the database cannot be written and therefore does
    /// not contain this state.
    fn find_unwritten_call(&self, id: CallId) -> Option<ToolCallRecord> {
        let spool = self.call_spool.as_ref()?;
        let unwritten_calls = spool.find_unwritten_calls(&CallFilter::default())?;
        unwritten_calls
            .matching_calls
            .into_iter()
            .find(|call| call.id == id)
    }
}
