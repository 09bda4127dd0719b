use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::registry::RegisteredTool;
use crate::tool::{CallContext, JsonObject, ToolFailure, ToolOutput};

/// A call that is about to run: it is valid, and nobody's approval is missing.
#[derive(Debug, Clone)]
pub struct ReadyCall {
    /// The tool that would run.
    pub tool: Arc<RegisteredTool>,
    /// The arguments that it would run with: checked, with defaults filled in.
    pub arguments: JsonObject,
    /// Who calls; `call_id` is set.
    pub context: CallContext,
    /// The id of the approval that it has, if it needed one.
    pub approval: Option<String>,
}

/// What [`Gate::enter`] returns.
pub type GateFuture = Pin<Box<dyn Future<Output = Result<Option<ToolOutput>, ToolFailure>> + Send>>;

/// Is asked last before a call runs, for limits that several executors share, quotas, or answers
/// from elsewhere.
///
/// A call that fails before, or waits for approval, does not come here; one that ends here counts
/// towards none of the executor's own limits. The time that the answer takes counts towards no
/// deadline of the tool.
pub trait Gate: Send + Sync + 'static {
    /// `None` lets the call run. An output takes the place of what the tool would have returned;
    /// a failure ends the call with that failure. Then the tool does not run.
    fn enter(&self, call: ReadyCall) -> GateFuture;
}

#[cfg(test)]
mod tests;
