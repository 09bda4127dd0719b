use async_trait::async_trait;

use super::{
    CallFilter, CallId, PageRequest, ProcessRun, Pruned, RateLimitRecord, RecordPage, Retention,
    StoreError, Timestamp, ToolCallRecord, ToolStatistics,
};

/// Stores all tool calls.
#[async_trait]
pub trait CallLog: Send + Sync {
    /// Stores the current state of a call: before the call runs, and again after each step.
    /// Identity, arguments and parent are taken from the first write. Returns once the write is
    /// durable.
    ///
    /// # Errors
    /// `conflict` if the call has already ended with another outcome; `unavailable` if it is
    /// unknown whether the write succeeded: the same record can be sent again.
    async fn record_call(&self, call: ToolCallRecord) -> Result<(), StoreError>;

    /// Stores a call like [`record_call`](Self::record_call), for a call that runs at once and
    /// whose id no other process or task uses. This method can be much faster, because the store
    /// need not compare the record with another record. Use the same method for all records of a
    /// call.
    ///
    /// # Errors
    /// `unavailable` if it is unknown whether the write succeeded: the same record can be sent
    /// again.
    async fn record_local_call(&self, call: ToolCallRecord) -> Result<(), StoreError> {
        self.record_call(call).await
    }

    /// Stores a call that waits for an approval, or its end, like
    /// [`record_call`](Self::record_call).
    ///
    /// # Errors
    /// `conflict` also if the call runs: calls that wait for the same approval share a record.
    async fn record_waiting_call(&self, call: ToolCallRecord) -> Result<(), StoreError>;

    /// Returns the call with this id.
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

    /// Returns the calls of an owner since `from` that count toward rate limits: whose tools ran or
    /// may have run, or that a cached result answered. Newest first.
    ///
    /// # Errors
    /// `invalid` if the cursor is not valid.
    async fn counted_calls(
        &self,
        owner: &str,
        from: Timestamp,
        page: &PageRequest,
    ) -> Result<RecordPage<RateLimitRecord>, StoreError>;

    /// Returns statistics of the calls of each tool, ordered by server and tool.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn call_statistics(&self, filter: &CallFilter)
    -> Result<Vec<ToolStatistics>, StoreError>;

    /// Returns the ids of the processes of this owner that have unfinished calls.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn unfinished_processes(&self, owner: &str) -> Result<Vec<String>, StoreError>;

    /// Marks the unfinished calls of an ended process as `interrupted`, and returns their number.
    /// Does not mark a pending call whose approval can still be decided.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn interrupt_run(&self, ended: &ProcessRun, at: Timestamp) -> Result<u64, StoreError>;

    /// Marks the calls as `cancelled` whose approval expired, or was used for another call, before
    /// `before`. Returns their number.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn cancel_undecided(&self, before: Timestamp, at: Timestamp) -> Result<u64, StoreError>;

    /// Removes calls beyond the retention limits, in small steps, so that calls can be recorded
    /// meanwhile.
    ///
    /// # Errors
    /// The store cannot be written. Calls that were removed before the error stay removed.
    async fn prune_calls(
        &self,
        retention: &Retention,
        now: Timestamp,
    ) -> Result<Pruned, StoreError>;

    /// Returns whether a call with this id may have been recorded and removed. If not, and
    /// [`call`](Self::call) did not find the call before, the call was never recorded.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn may_have_removed_call(&self, id: CallId) -> Result<bool, StoreError>;
}
