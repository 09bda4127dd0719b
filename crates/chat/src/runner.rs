use std::num::NonZeroUsize;

use async_trait::async_trait;
use pillion_core::executor::Executor;
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolResult};

/// Runs the tool calls of a chat. [`Executor`] implements this trait, and runs each call through
/// all stages of its pipeline.
#[async_trait]
pub trait ToolRunner: Send + Sync {
    /// Returns the canonical name of the tool that `name` refers to (different from `name` if
    /// `name` is an alias), or `None` if there is no such tool. The chat runs a call only if the
    /// model has seen the tool with the canonical name.
    fn canonical_name(&self, name: &str) -> Option<String>;

    /// Returns the maximum number of concurrent calls.
    fn max_concurrent_calls(&self) -> NonZeroUsize;

    /// Runs one call. Dropping the future cancels the call; the chat does so on timeout. A runner
    /// that cannot cancel its calls discards their results. A result with
    /// [`ApprovalRequired`](pillion_core::tool::ErrorCode::ApprovalRequired) pauses the chat, and
    /// the chat runs the same call again when it continues.
    async fn run(&self, call: ToolCall, context: &CallContext) -> ToolResult;

    /// Decides whether the provider may call a tool of an MCP server itself; `call` has the tool's
    /// local name ([`NativeServer`](crate::NativeServer)). A successful result approves the call;
    /// the content of the result is ignored. A failed result denies the call, and the model
    /// receives the error as the reason.
    /// [`ApprovalRequired`](pillion_core::tool::ErrorCode::ApprovalRequired) pauses the chat as in
    /// [`run`](Self::run). The default implementation denies every call.
    async fn permit(&self, call: ToolCall, context: &CallContext) -> ToolResult {
        let _ = context;
        let message = format!(
            "The provider may not call tool '{}' itself: all tools of this chat run in Pillion",
            call.name
        );
        ToolResult::failure(call.id, call.name, ErrorCode::Denied, message)
    }
}

#[async_trait]
impl ToolRunner for Executor {
    fn canonical_name(&self, name: &str) -> Option<String> {
        Some(self.find(name)?.name().to_string())
    }

    fn max_concurrent_calls(&self) -> NonZeroUsize {
        self.max_concurrent_calls()
    }

    async fn run(&self, call: ToolCall, context: &CallContext) -> ToolResult {
        self.execute_one(call, context).await
    }
}
