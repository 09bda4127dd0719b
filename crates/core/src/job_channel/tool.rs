use std::sync::Arc;

use super::{JobChannel, JobPeer, PeerGone, ToolRun, cancelled_failure};
use crate::tool::{
    ApprovalPolicy, CallContext, ErrorCode, JsonObject, Tool, ToolDefinition, ToolFailure,
    ToolFuture, ToolOrigin,
};

/// A tool that the peer of a call's execution runs.
pub struct PeerTool<P: JobPeer> {
    definition: ToolDefinition,
    origin: ToolOrigin,
    approval_policy: Option<ApprovalPolicy>,
    tool: P::Tool,
}

impl<P: JobPeer> PeerTool<P> {
    /// Creates a tool with the approval policy of its MCP server, if the server has a policy.
    /// `tool` identifies the tool for the peer.
    pub fn new(
        definition: ToolDefinition,
        origin: ToolOrigin,
        approval_policy: Option<ApprovalPolicy>,
        tool: P::Tool,
    ) -> Self {
        Self {
            definition,
            origin,
            approval_policy,
            tool,
        }
    }
}

impl<P: JobPeer> Tool for PeerTool<P> {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn origin(&self) -> ToolOrigin {
        self.origin.clone()
    }

    /// Returns the address of the server, because an approval must not hold for a tool of another
    /// server with the same label.
    fn digest(&self) -> Option<String> {
        match &self.origin {
            ToolOrigin::Mcp { server_url, .. } => {
                Some(server_url.clone()).filter(|url| !url.is_empty())
            }
            ToolOrigin::Native => None,
        }
    }

    fn approval_policy(&self) -> Option<ApprovalPolicy> {
        self.approval_policy
    }

    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            let name = self.definition.name().to_string();
            let job = format!("Tool '{name}'");
            let channel = JobChannel::<P>::find(&context).ok_or_else(|| {
                let peer = P::NAME;
                let message =
                    format!("{job} is PHP code, but no {peer} is available to run the code");
                ToolFailure::new(ErrorCode::Unavailable, message)
            })?;
            let run = ToolRun {
                tool: self.tool.clone(),
                name,
                arguments,
                call_id: context.call_id.clone(),
            };
            let outcome = channel.peer().run_tool(run).await;
            outcome.unwrap_or_else(|PeerGone| Err(cancelled_failure(&job)))
        })
    }
}
