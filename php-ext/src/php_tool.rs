//! Tools that are PHP code, from the engine's point of view.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pillion_core::tool::{
    ApprovalPolicy, CallContext, ErrorCode, JsonObject, Tool, ToolDefinition, ToolFailure,
    ToolFuture, ToolOrigin,
};

use crate::execution_registry::{ExecutionJob, ExecutionRegistry, ToolRun};

/// A tool that the PHP thread runs while it waits for the call. The PHP object itself stays in the
/// registry's property `$tools`.
pub struct PhpTool {
    definition: ToolDefinition,
    origin: ToolOrigin,
    approval_policy: Option<ApprovalPolicy>,
    executions: Arc<ExecutionRegistry>,
    number: u64,
}

impl PhpTool {
    /// Creates a tool with this definition. The registry finds the PHP object by the tool's name.
    pub fn new(
        definition: ToolDefinition,
        origin: ToolOrigin,
        executions: Arc<ExecutionRegistry>,
    ) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Self {
            definition,
            origin,
            approval_policy: None,
            executions,
            number: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Returns the same tool with the approval policy of its server entry.
    pub fn with_approval_policy(mut self, policy: Option<ApprovalPolicy>) -> Self {
        self.approval_policy = policy;
        self
    }

    /// Returns the number that distinguishes the tool from a later one with the same name.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Tool for PhpTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn origin(&self) -> ToolOrigin {
        self.origin.clone()
    }

    /// Returns the address of the server: an approval does not hold for a tool of another server
    /// with the same label.
    fn digest(&self) -> Option<String> {
        match &self.origin {
            ToolOrigin::Mcp { server_url, .. } => {
                Some(server_url.clone()).filter(|url| !url.is_empty())
            }
            _ => None,
        }
    }

    fn approval_policy(&self) -> Option<ApprovalPolicy> {
        self.approval_policy
    }

    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            let name = self.definition.name().as_str();
            let execution = self.executions.find(&context).ok_or_else(|| {
                ToolFailure::new(
                    ErrorCode::Unavailable,
                    format!("Tool '{name}' is PHP code, and no PHP thread waits for this call"),
                )
            })?;
            let run = ToolRun {
                tool: name.to_owned(),
                number: self.number,
                arguments,
                call_id: context.call_id,
            };
            execution
                .request(ExecutionJob::Run, run, &format!("Tool '{name}'"))
                .await
        })
    }
}
