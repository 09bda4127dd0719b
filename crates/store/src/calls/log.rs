use async_trait::async_trait;
use pillion_core::store::{
    CallFilter, CallId, CallLog, PageRequest, ProcessRun, Pruned, RateLimitRecord, RecordPage,
    Retention, StoreError, Timestamp, ToolCallRecord, ToolStatistics,
};
use sqlx::AssertSqlSafe;

use super::{batch, query, record, retention, spool, statistics};
use crate::sql_store::SqlStore;

/// The condition for calls of the owner `$1` that have not ended. SQLite uses the index of all
/// statuses but `success` only if a query has this condition.
const UNFINISHED: &str = "owner = $1 AND status IN ('pending', 'running') AND status <> 'success'";

#[async_trait]
impl CallLog for SqlStore {
    async fn record_call(&self, call: ToolCallRecord) -> Result<(), StoreError> {
        // The call has run, so if the database cannot store the end of the call, the spool file
        // does.
        let spool = self.call_spool.as_ref().filter(|_| spool::has_run(&call));
        let end = spool.map(|spool| (spool, call.clone()));
        let mut written = self.call_writer.write(call).await;
        if let Some((spool, call)) = end
            && written.as_ref().is_err_and(StoreError::is_unavailable)
        {
            written = spool.append(call).await;
        }
        self.note_outcome(written)
    }

    async fn record_local_call(&self, call: ToolCallRecord) -> Result<(), StoreError> {
        self.note_outcome(match &self.call_spool {
            Some(spool) => spool.append(call).await,
            None => self.call_writer.write(call).await,
        })
    }

    async fn record_waiting_call(&self, call: ToolCallRecord) -> Result<(), StoreError> {
        let written = batch::write_waiting(&self.database, &self.clock, &call);
        self.note_outcome(written.await)
    }

    async fn find_call(&self, id: CallId) -> Result<Option<ToolCallRecord>, StoreError> {
        self.catch_up_if_possible().await;
        if let Some(call) = self.stuck_call(id) {
            return Ok(Some(call));
        }
        let sql = "SELECT * FROM tool_calls WHERE id = $1";
        let mut row = self.database.read_one(sql, vec![id.into()]).await?;
        if row.is_none() {
            // Another process may have recorded the call and exited before its records were in the
            // database.
            self.flush_ended_processes().await?;
            row = self.database.read_one(sql, vec![id.into()]).await?;
        }
        row.as_ref().map(record::read).transpose()
    }

    async fn calls(
        &self,
        filter: &CallFilter,
        page: &PageRequest,
    ) -> Result<RecordPage<ToolCallRecord>, StoreError> {
        self.catch_up_if_possible().await;
        let stuck = self
            .call_spool
            .as_ref()
            .and_then(|spool| spool.stuck_calls(filter));
        query::calls(&self.database, filter, page, stuck).await
    }

    async fn counted_calls(
        &self,
        owner: &str,
        from: Timestamp,
        page: &PageRequest,
    ) -> Result<RecordPage<RateLimitRecord>, StoreError> {
        if page.after.is_none() {
            self.flush_ended_processes().await?;
        }
        query::counted_calls(&self.database, owner, from, page).await
    }

    async fn call_statistics(
        &self,
        filter: &CallFilter,
    ) -> Result<Vec<ToolStatistics>, StoreError> {
        self.catch_up_if_possible().await;
        statistics::by_tool(&self.database, filter).await
    }

    async fn unfinished_processes(&self, owner: &str) -> Result<Vec<String>, StoreError> {
        self.flush_ended_processes().await?;
        let sql = format!("SELECT DISTINCT run_id FROM tool_calls WHERE {UNFINISHED}");
        let rows = self
            .database
            .read(AssertSqlSafe(sql), vec![owner.into()])
            .await?;
        rows.iter().map(|row| row.text("run_id")).collect()
    }

    async fn interrupt_run(&self, ended: &ProcessRun, at: Timestamp) -> Result<u64, StoreError> {
        self.flush_ended_processes().await?;
        let sql = format!(
            "UPDATE tool_calls SET status = 'interrupted', completed_at = $2, \
             error = 'The sidecar ended before the call did' \
             WHERE {UNFINISHED} AND run_id = $4 AND (status = 'running' \
             OR NOT EXISTS (SELECT 1 FROM approvals \
             WHERE approvals.call_id = tool_calls.id AND approvals.used_at IS NULL \
             AND approvals.expires_at > $3 \
             AND (approvals.verdict IS NULL OR approvals.verdict = 'approved')))"
        );
        let values = vec![
            ended.owner.as_str().into(),
            at.into(),
            self.clock().await?.settled_time(at).into(),
            ended.run_id.as_str().into(),
        ];
        self.database.write(AssertSqlSafe(sql), values).await
    }

    async fn cancel_undecided(&self, before: Timestamp, at: Timestamp) -> Result<u64, StoreError> {
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
            .write(sql, vec![before.into(), at.into()])
            .await
    }

    async fn prune_calls(
        &self,
        retention: &Retention,
        now: Timestamp,
    ) -> Result<Pruned, StoreError> {
        self.catch_up_if_possible().await;
        retention::prune(&self.database, retention, now).await
    }

    async fn may_have_removed_call(&self, id: CallId) -> Result<bool, StoreError> {
        let sql = "SELECT 1 AS present FROM removed_calls WHERE newest >= $1";
        let row = self.database.read_one(sql, vec![id.into()]).await?;
        Ok(row.is_some())
    }
}

impl SqlStore {
    /// Returns the call if the database cannot be written and does not contain the current state of
    /// the call.
    fn stuck_call(&self, id: CallId) -> Option<ToolCallRecord> {
        let spool = self.call_spool.as_ref()?;
        let stuck = spool.stuck_calls(&CallFilter::default())?;
        stuck.matching.into_iter().find(|call| call.id == id)
    }
}
