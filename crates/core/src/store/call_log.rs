use async_trait::async_trait;

use super::{
    CallCounts, CallFilter, CallGrouping, CallId, CallStatistics, PageRequest, ProcessRun,
    PruneOutcome, RateLimitRecord, RecordPage, Retention, StoreError, Timestamp, ToolCallRecord,
};

/// Stores all tool calls.
#[async_trait]
pub trait CallLog: Send + Sync {
    /// Stores the current state of a call: before the call runs, and again after each change of its
    /// status. Later writes do not change the stored identity, arguments and parent. Returns once
    /// the write is durable.
    ///
    /// # Errors
    /// `conflict` if the call has already ended with another outcome; `unavailable` if it is
    /// unknown whether the write succeeded: the same record can be sent again.
    async fn record_call(&self, call: ToolCallRecord) -> Result<(), StoreError>;

    /// Stores a call like [`record_call`](Self::record_call). Can be much faster, because the store
    /// need not compare the record with another record. Restrictions:
    ///
    /// - The call must not wait for an approval.
    /// - No other process or task may use the ID of the call.
    /// - All records of one call must be stored with the same method.
    ///
    /// # Errors
    /// `unavailable` if it is unknown whether the write succeeded: the same record can be sent
    /// again.
    async fn record_local_call(&self, call: ToolCallRecord) -> Result<(), StoreError> {
        self.record_call(call).await
    }

    /// Stores a call like [`record_call`](Self::record_call), for a call that waits for an approval
    /// or has stopped waiting without running. Several calls that wait for the same approval share
    /// one record.
    ///
    /// # Errors
    /// All errors of [`record_call`](Self::record_call), and `conflict` if the record already belongs
    /// to a running call, which has used the approval.
    async fn record_waiting_call(&self, call: ToolCallRecord) -> Result<(), StoreError>;

    /// Returns the call with this ID.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn find_call(&self, id: CallId) -> Result<Option<ToolCallRecord>, StoreError>;

    /// Returns calls, newest first.
    ///
    /// # Errors
    /// `invalid` if the cursor is not valid.
    async fn calls(
        &self,
        filter: &CallFilter,
        page: &PageRequest,
    ) -> Result<RecordPage<ToolCallRecord>, StoreError>;

    /// Returns the calls of an owner since `from` that count toward rate limits, newest first:
    /// calls whose tools ran or may have run, and calls whose result came from the cache.
    ///
    /// # Errors
    /// `invalid` if the cursor is not valid.
    async fn counted_calls(
        &self,
        owner: &str,
        from: Timestamp,
        page: &PageRequest,
    ) -> Result<RecordPage<RateLimitRecord>, StoreError>;

    /// Returns statistics of each group of calls, ordered by server, tool and user.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn call_statistics(
        &self,
        filter: &CallFilter,
        grouping: CallGrouping,
    ) -> Result<Vec<CallStatistics>, StoreError>;

    /// Counts the calls of each interval between two successive `boundaries`, which are in ascending
    /// order. The filter's `status`, `from` and `until` must be `None`.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn count_calls(
        &self,
        filter: &CallFilter,
        boundaries: &[Timestamp],
    ) -> Result<Vec<CallCounts>, StoreError>;

    /// Returns the IDs of the processes of this owner that have unfinished calls.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn unfinished_processes(&self, owner: &str) -> Result<Vec<String>, StoreError>;

    /// Marks the unfinished calls of an ended process as `interrupted`, and returns their number.
    /// Does not mark a pending call whose approval can still be decided.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn interrupt_run(&self, run: &ProcessRun, at: Timestamp) -> Result<u64, StoreError>;

    /// Marks pending calls as `cancelled` if, before the time `before`, their approval expired or
    /// was used for another call. Returns their number.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn cancel_undecided_calls(
        &self,
        before: Timestamp,
        at: Timestamp,
    ) -> Result<u64, StoreError>;

    /// Removes calls beyond the retention limits, in small steps, so that calls can be recorded
    /// between the steps.
    ///
    /// # Errors
    /// The store cannot be written. Calls that were removed before the error stay removed.
    async fn prune_calls(
        &self,
        retention: &Retention,
        now: Timestamp,
    ) -> Result<PruneOutcome, StoreError>;

    /// Returns whether a call with this ID may have been recorded and later removed. If this
    /// returns `false` after [`find_call`](Self::find_call) found no call, the call was never
    /// recorded.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn may_have_removed_call(&self, id: CallId) -> Result<bool, StoreError>;
}
