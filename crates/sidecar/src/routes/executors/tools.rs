use std::sync::Arc;

use pillion_core::tool::{
    ApprovalPolicy, CallContext, ErrorCode, JsonObject, Tool, ToolDefinition, ToolFailure,
    ToolFuture, ToolName, ToolOrigin,
};
use serde_json::json;

use super::execution::Execution;
use crate::current_app::WeakCurrentApp;
use crate::routes::tools::executor_call::ExecutorCall;
use pillion_gateway::access::Peer;

/// A tool of a PHP registry.
pub(super) struct RegistryTool {
    pub(super) definition: ToolDefinition,
    pub(super) origin: ToolOrigin,
    pub(super) approval_policy: Option<ApprovalPolicy>,
    pub(super) handler: Handler,
}

/// How a tool of a PHP registry runs.
pub(super) enum Handler {
    /// The PHP process runs the tool with this number.
    Php { number: u64 },
    /// The sidecar runs its own tool with this name, like a request to the REST API.
    Sidecar {
        name: ToolName,
        current_app: WeakCurrentApp,
        peer: Peer,
    },
}

impl Tool for RegistryTool {
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
            let name = self.definition.name();
            let execution = Execution::of(&context).ok_or_else(|| {
                let message =
                    format!("Tool '{name}' is PHP code, and no PHP process waits for this call");
                ToolFailure::new(ErrorCode::Unavailable, message)
            })?;
            match &self.handler {
                Handler::Php { number } => {
                    let params = json!({
                        "name": name, "tool": number, "callId": context.call_id, "arguments": arguments,
                    });
                    let what = format!("Tool '{name}'");
                    let response = execution.request("tools/call", params, &what).await?;
                    response.into_output().unwrap_or_else(|| {
                        Err(ToolFailure::internal(format!("{what} returned no result")))
                    })
                }
                Handler::Sidecar {
                    name,
                    current_app,
                    peer,
                } => {
                    let headers = execution.headers.clone()?;
                    let current_app = current_app.upgrade().ok_or_else(|| {
                        ToolFailure::new(ErrorCode::Unavailable, "The sidecar is stopping")
                    })?;
                    let app = current_app.app();
                    drop(current_app);
                    let call = ExecutorCall {
                        name: name.clone(),
                        arguments,
                        headers,
                        peer: *peer,
                    };
                    call.run(&app).await
                }
            }
        })
    }
}
