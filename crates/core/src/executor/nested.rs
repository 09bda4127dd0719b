//! Calls that a running tool makes ([`Tool::makes_calls`](crate::tool::Tool::makes_calls)):
//! each goes through the whole pipeline, below the call that made it.

use std::sync::Arc;

use super::{Executor, resolve};
use crate::registry::RegisteredTool;
use crate::store::CallId;
use crate::tool::{
    CallContext, ErrorCode, FurtherCallFuture, MakesCalls, Nesting, Patience, ToolCall, ToolFailure,
};

/// Makes the calls of one running call.
pub(super) struct Calls {
    executor: Executor,
    /// Where they stand.
    nesting: Nesting,
}

impl Calls {
    /// For the call that is about to run.
    pub(super) fn of(executor: &Executor, context: &CallContext, time: Arc<Patience>) -> Self {
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
            // One of its own in any case: a call that waits since an earlier run stands below that.
            record: Some(CallId::new()),
            nesting: Some(Arc::new(nesting)),
            further_calls: None,
            ..context
        };
        Box::pin(async move { executor.execute_one(call, &context).await })
    }
}

/// Lets a call through that no other has made, or that may be made where it stands.
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
        // As whoever may not see a tool is told.
        return resolve::found(None, name).map(drop);
    }
    let too_much = |what: String| Err(ToolFailure::new(ErrorCode::InternalError, what));
    let (deepest, most) = (Nesting::DEEPEST, Nesting::MOST_CALLS);
    if nesting.depth > deepest {
        return too_much(format!("More than {deepest} calls stand above this one"));
    }
    if nesting.count() > most {
        return too_much(format!("One call makes no more than {most} others"));
    }
    Ok(())
}
