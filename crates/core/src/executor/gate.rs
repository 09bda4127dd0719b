use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::registry::RegisteredTool;
use crate::tool::{CallContext, JsonObject, ToolFailure, ToolOutput};

/// A call that is validated and, if it needs an approval, approved.
#[derive(Debug, Clone)]
pub struct ReadyCall {
    /// The tool that is about to run.
    pub tool: Arc<RegisteredTool>,
    /// The arguments of the call, validated and with defaults filled in.
    pub arguments: JsonObject,
    /// The context of the call, with `call_id` set.
    pub context: CallContext,
    /// The ID of the call's approval, if the call needed one.
    pub approval: Option<String>,
}

/// The return type of [`CallGate::enter`].
pub type GateFuture = Pin<Box<dyn Future<Output = Result<Option<ToolOutput>, ToolFailure>> + Send>>;

/// Checks a call after validation and approval, but before the executor's rate limits and cache.
/// Implementations can apply quotas or limits that several executors share, or return a result from
/// elsewhere.
///
/// Calls that fail earlier or wait for approval do not reach the gate. A call that ends at the gate
/// counts toward none of the executor's rate limits. The time that the gate takes does not count
/// toward the deadline of the tool.
pub trait CallGate: Send + Sync + 'static {
    /// Returns `None` to let the call run. An output replaces the output of the tool, and a failure
    /// ends the call with that failure; the tool then does not run.
    fn enter(&self, call: ReadyCall) -> GateFuture;
}

#[cfg(test)]
mod tests;
