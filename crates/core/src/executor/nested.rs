//! Nested calls: the calls of a running tool that [makes calls](crate::tool::Tool::makes_calls).
//! Each nested call goes through the whole pipeline.

use std::sync::Arc;

use super::Executor;
use crate::store::CallId;
use crate::tool::{
    CallContext, NestedCallFuture, NestedCallRunner, Nesting, PausableClock, ToolCall,
};

/// Runs the nested calls of one running call.
pub(super) struct NestedCalls {
    executor: Executor,
    /// The nesting of the calls that the running call makes.
    nesting: Nesting,
}

impl NestedCalls {
    /// Creates the nested-call runner of a call that is about to run.
    pub(super) fn new(
        executor: &Executor,
        context: &CallContext,
        clock: Arc<PausableClock>,
    ) -> Self {
        Self {
            executor: executor.clone(),
            nesting: Nesting::for_calls_of(context.record, clock, context.nesting.as_deref()),
        }
    }
}

impl NestedCallRunner for NestedCalls {
    fn run(&self, call: ToolCall, context: CallContext, is_granted: bool) -> NestedCallFuture {
        let executor = self.executor.clone();
        let mut nesting = self.nesting.clone();
        nesting.is_granted = is_granted;
        let context = CallContext {
            // A nested call always gets a new record, because a record that still waits for an
            // approval belongs to an earlier run of the calling tool.
            record: Some(CallId::new()),
            nesting: Some(Arc::new(nesting)),
            nested_calls: None,
            result_memory: None,
            // The arguments are not repaired, because the calling tool, not a model, has written
            // them.
            is_by_model: false,
            ..context
        };
        Box::pin(async move { executor.execute_one(call, &context).await })
    }
}
