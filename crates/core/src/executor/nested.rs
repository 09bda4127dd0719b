//! Nested calls: the calls of a running tool that [makes calls](crate::tool::Tool::makes_calls).
//! Each nested call goes through the whole pipeline.

use std::sync::Arc;

use super::{Executor, resolve};
use crate::registry::RegisteredTool;
use crate::store::CallId;
use crate::tool::{
    CallContext, ErrorCode, FurtherCallFuture, MakesCalls, Nesting, PausableClock, ToolCall,
    ToolFailure,
};

/// Runs the nested calls of one running call.
pub(super) struct Calls {
    executor: Executor,
    /// The position of the nested calls.
    nesting: Nesting,
}

impl Calls {
    /// Creates the nested-call runner of a call that is about to run.
    pub(super) fn of(executor: &Executor, context: &CallContext, time: Arc<PausableClock>) -> Self {
        Self {
            executor: executor.clone(),
            nesting: Nesting::below(context.record, time, context.nesting.as_deref()),
        }
    }
}

impl MakesCalls for Calls {
    fn make(&self, call: ToolCall, context: CallContext, is_lent: bool) -> FurtherCallFuture {
        let executor = self.executor.clone();
        let mut nesting = self.nesting.clone();
        nesting.is_lent = is_lent;
        let context = CallContext {
            // Always a new record: a call that still waits since an earlier run belongs to that
            // run.
            record: Some(CallId::new()),
            nesting: Some(Arc::new(nesting)),
            further_calls: None,
            ..context
        };
        Box::pin(async move { executor.execute_one(call, &context).await })
    }
}

/// Accepts calls that are not nested, and nested calls that are allowed and within the nesting
/// limits.
pub(super) fn admit(
    tool: &RegisteredTool,
    name: &str,
    context: &CallContext,
) -> Result<(), ToolFailure> {
    let Some(nesting) = &context.nesting else {
        return Ok(());
    };
    if let Some(filter) = context.may_use.as_ref().filter(|_| !nesting.is_lent)
        && !filter.admits(tool.name().as_str(), tool.origin())
    {
        // Reported as unknown, because the caller may not learn that the tool exists.
        return resolve::found(None, name).map(drop);
    }
    let too_much = |what: String| Err(ToolFailure::new(ErrorCode::InternalError, what));
    let (deepest, most) = (Nesting::DEEPEST, Nesting::MAX_CALLS);
    if nesting.depth > deepest {
        return too_much(format!("Nested tool calls are limited to {deepest} levels"));
    }
    if nesting.count() > most {
        return too_much(format!(
            "Nested tool calls are limited to {most} for one call"
        ));
    }
    Ok(())
}
