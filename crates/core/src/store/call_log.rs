use async_trait::async_trait;

use super::{
    CallFilter, CallId, CallThatRan, Page, PageRequest, ProcessLife, Pruned, Retention, StoreError,
    Timestamp, ToolCallRecord, ToolStatistics,
};

/// Keeps every call of a tool (requirement F4).
#[async_trait]
pub trait CallLog: Send + Sync {
    /// Stores a call as it is now: before it runs, and again at each step. Identity, arguments
    /// and parent are taken from the first time. When this returns, it is stored.
    ///
    /// # Errors
    /// `conflict` when the call had already ended, otherwise than this; `unavailable` when it
    /// is not known to be stored: the same record may be sent again.
    async fn record_call(&self, call: ToolCallRecord) -> Result<(), StoreError>;

    /// As [`record_call`](Self::record_call), for a call that runs at once, under an id that
    /// nobody else has: no other process and no other task records anything of it. With
    /// nothing to be compared, this can take much less time. All records of a call come in
    /// the same way.
    ///
    /// # Errors
    /// `unavailable` when it is not known to be stored: the same record may be sent again.
    async fn record_own_call(&self, call: ToolCallRecord) -> Result<(), StoreError> {
        self.record_call(call).await
    }

    /// The call of that id.
    ///
    /// # Errors
    /// Errors of the store.
    async fn call(&self, id: CallId) -> Result<Option<ToolCallRecord>, StoreError>;

    /// Calls, the newest first.
    ///
    /// # Errors
    /// `invalid` if the cursor is not valid.
    async fn calls(
        &self,
        filter: &CallFilter,
        page: &PageRequest,
    ) -> Result<Page<ToolCallRecord>, StoreError>;

    /// The calls of an owner since that moment whose tools have run, or may have, or were
    /// answered with a kept result: those that limits count. The newest first.
    ///
    /// # Errors
    /// `invalid` if the cursor is not valid.
    async fn calls_that_ran(
        &self,
        owner: &str,
        from: Timestamp,
        page: &PageRequest,
    ) -> Result<Page<CallThatRan>, StoreError>;

    /// What is known of each tool's calls, by server and tool.
    ///
    /// # Errors
    /// Errors of the store.
    async fn call_statistics(&self, filter: &CallFilter)
    -> Result<Vec<ToolStatistics>, StoreError>;

    /// Marks the calls that other lives of this owner left unfinished as `interrupted`; how
    /// many. `living` are lives that still run: this one, and one that is handing over. A
    /// pending call whose approval is still open is left: it can be decided yet.
    ///
    /// # Errors
    /// Errors of the store.
    async fn interrupt_calls(
        &self,
        owner: &str,
        living: &[String],
        at: Timestamp,
    ) -> Result<u64, StoreError>;

    /// Marks what that life, which has ended, left unfinished as `interrupted`, as
    /// [`interrupt_calls`](Self::interrupt_calls) does; how many.
    ///
    /// # Errors
    /// Errors of the store.
    async fn interrupt_life(&self, ended: &ProcessLife, at: Timestamp) -> Result<u64, StoreError>;

    /// Marks the calls as `cancelled` that wait for an approval that has expired, or that was used
    /// for another call, before `before`; how many.
    ///
    /// # Errors
    /// Errors of the store.
    async fn cancel_undecided(&self, before: Timestamp, at: Timestamp) -> Result<u64, StoreError>;

    /// Removes what is beyond the bounds, in small steps, so that calls are recorded meanwhile.
    ///
    /// # Errors
    /// Errors of the store. Calls that were removed before the error stay removed.
    async fn prune_calls(
        &self,
        retention: &Retention,
        now: Timestamp,
    ) -> Result<Pruned, StoreError>;
}
