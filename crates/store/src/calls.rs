//! The call log: [`CallWriter`] gathers what waits and commits it together; reading is here.

mod batch;
mod query;
mod record;
mod retention;
mod statistics;
mod writer;

use async_trait::async_trait;
use pillion_core::store::{
    CallFilter, CallId, CallLog, CallThatRan, Cursor, Page, PageRequest, Pruned, Retention,
    StoreError, Timestamp, ToolCallRecord, ToolStatistics,
};

use crate::sql_store::SqlStore;
pub(crate) use writer::CallWriter;

#[async_trait]
impl CallLog for SqlStore {
    async fn record_call(&self, call: ToolCallRecord) -> Result<(), StoreError> {
        self.call_writer.write(call).await
    }

    async fn call(&self, id: CallId) -> Result<Option<ToolCallRecord>, StoreError> {
        let sql = "SELECT * FROM tool_calls WHERE id = $1";
        let row = self.database.read_one(sql, vec![id.into()]).await?;
        row.as_ref().map(record::read).transpose()
    }

    async fn calls(
        &self,
        filter: &CallFilter,
        page: &PageRequest,
    ) -> Result<Page<ToolCallRecord>, StoreError> {
        query::calls(&self.database, filter, page).await
    }

    async fn calls_that_ran(
        &self,
        owner: &str,
        from: Timestamp,
        page: &PageRequest,
    ) -> Result<Page<CallThatRan>, StoreError> {
        query::calls_that_ran(&self.database, owner, from, page).await
    }

    async fn call_statistics(
        &self,
        filter: &CallFilter,
    ) -> Result<Vec<ToolStatistics>, StoreError> {
        statistics::by_tool(&self.database, filter).await
    }

    async fn interrupt_calls(
        &self,
        owner: &str,
        living: &[String],
        at: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut values = vec![owner.into(), at.into()];
        let mut sql = "UPDATE tool_calls SET status = 'interrupted', completed_at = $2, \
                       error = 'The sidecar ended before the call did' \
                       WHERE owner = $1 AND (status = 'running' OR (status = 'pending' \
                       AND NOT EXISTS (SELECT 1 FROM approvals \
                       WHERE approvals.call_id = tool_calls.id AND approvals.used_at IS NULL \
                       AND approvals.expires_at > $2 \
                       AND (approvals.verdict IS NULL OR approvals.verdict = 'approved'))))"
            .to_owned();
        for life in living {
            values.push(life.into());
            sql += &format!(" AND life <> ${}", values.len());
        }
        self.database.write(&sql, values).await
    }

    async fn prune_calls(
        &self,
        retention: &Retention,
        now: Timestamp,
    ) -> Result<Pruned, StoreError> {
        retention::prune(&self.database, retention, now).await
    }
}

/// A page of records that were asked for with one more than it holds, which tells whether
/// there is another page.
pub(crate) fn page_of<T>(mut items: Vec<T>, size: u32, cursor: impl Fn(&T) -> Cursor) -> Page<T> {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let more = items.len() > size;
    items.truncate(size);
    let next = if more { items.last().map(cursor) } else { None };
    Page { items, next }
}
