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
    /// The position of the nested calls.
    nesting: Nesting,
}

impl NestedCalls {
    /// Creates the nested-call runner of a call that is about to run.
    pub(super) fn new(
        executor: &Executor,
        context: &CallContext,
        time: Arc<PausableClock>,
    ) -> Self {
        Self {
            executor: executor.clone(),
            nesting: Nesting::below(context.record, time, context.nesting.as_deref()),
        }
    }
}

impl NestedCallRunner for NestedCalls {
    fn make(&self, call: ToolCall, context: CallContext, is_granted: bool) -> NestedCallFuture {
        let executor = self.executor.clone();
        let mut nesting = self.nesting.clone();
        nesting.is_granted = is_granted;
        let context = CallContext {
            // Always a new record: a call that still waits since an earlier run belongs to that
            // run.
            record: Some(CallId::new()),
            nesting: Some(Arc::new(nesting)),
            further_calls: None,
            result_memory: None,
            // The tool, not a model, has written the arguments.
            is_by_model: false,
            ..context
        };
        Box::pin(async move { executor.execute_one(call, &context).await })
    }
}
