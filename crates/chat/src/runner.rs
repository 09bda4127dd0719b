use std::num::NonZeroUsize;

use async_trait::async_trait;
use pillion_core::executor::Executor;
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolResult};

/// What runs the calls of a chat. An [`Executor`] is one: each call goes through its whole
/// pipeline.
#[async_trait]
pub trait ToolRunner: Send + Sync {
    /// The name under which the definition of the tool stands that a call of `name` reaches, which
    /// differs where `name` is an alias; none where there is no such tool. A call is run only if
    /// the tool of that name was shown to the model.
    fn canonical_name(&self, name: &str) -> Option<String>;

    /// How many calls may run side by side.
    fn at_once(&self) -> NonZeroUsize;

    /// Runs one call. Dropping the future cancels it, which the chat does when its time is over; a
    /// runner whose calls run where nobody can stop them drops what comes of them. A result of
    /// [`ApprovalRequired`](pillion_core::tool::ErrorCode::ApprovalRequired) holds the chat, and the
    /// same call comes again when the chat goes on.
    async fn run(&self, call: ToolCall, context: &CallContext) -> ToolResult;

    /// Says whether the provider may make a call of an MCP server's tool by itself; `call` has the
    /// name of the tool here ([`NativeServer`](crate::NativeServer)). A success lets it, whatever its
    /// content; a failure does not, and is the reason that the model is told.
    /// [`ApprovalRequired`](pillion_core::tool::ErrorCode::ApprovalRequired) holds the chat as for
    /// [`run`](Self::run). Nothing is allowed unless it says otherwise.
    async fn permit(&self, call: ToolCall, context: &CallContext) -> ToolResult {
        let _ = context;
        let message = "The provider may make no calls by itself";
        ToolResult::failure(call.id, call.name, ErrorCode::Denied, message)
    }
}

#[async_trait]
impl ToolRunner for Executor {
    fn canonical_name(&self, name: &str) -> Option<String> {
        Some(self.find(name)?.name().to_string())
    }

    fn at_once(&self) -> NonZeroUsize {
        self.calls_at_once()
    }

    async fn run(&self, call: ToolCall, context: &CallContext) -> ToolResult {
        self.execute_one(call, context).await
    }
}
