use std::sync::Arc;

use pillion_core::tool::{
    ApprovalPolicy, CallContext, ErrorCode, JsonObject, Tool, ToolDefinition, ToolFailure,
    ToolFuture, ToolOrigin,
};
use pillion_mcp_tools::McpTool;

use super::client_slot::ClientSlot;

/// A tool of an MCP server. The tool stays the same object when the connection changes.
pub(super) struct ServerTool {
    tool: McpTool,
    client_slot: Arc<ClientSlot>,
}

impl ServerTool {
    /// Creates a tool as its server listed it. The client inside `tool` is never called, because
    /// calls use the client in `client_slot`.
    pub(super) fn new(tool: McpTool, client_slot: &Arc<ClientSlot>) -> Self {
        Self {
            tool,
            client_slot: Arc::clone(client_slot),
        }
    }
}

impl Tool for ServerTool {
    fn definition(&self) -> &ToolDefinition {
        self.tool.definition()
    }

    fn origin(&self) -> ToolOrigin {
        self.tool.origin()
    }

    fn digest(&self) -> Option<String> {
        self.tool.digest()
    }

    fn approval_policy(&self) -> Option<ApprovalPolicy> {
        self.tool.approval_policy()
    }

    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture {
        let client = self.client_slot.client();
        Box::pin(async move {
            let client = client.ok_or_else(|| {
                let name = self.definition().name();
                let message = format!("Tool '{name}' has no connection in this process");
                ToolFailure::new(ErrorCode::Unavailable, message)
            })?;
            self.tool
                .call_with_client(&client, &arguments, context)
                .await
        })
    }
}
