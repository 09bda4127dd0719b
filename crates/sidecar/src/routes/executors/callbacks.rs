//! Forwards approval requests, the checks before a call and the notices about calls to the PHP
//! process.

use std::sync::Arc;
use std::time::Duration;

use pillion_core::executor::{
    ApprovalFuture, ApprovalRequest, Approver, CallGate, Decision, GateFuture, Observer, ReadyCall,
};
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::{CallContext, JsonObject, ToolCall, ToolOrigin, ToolResult};
use serde_json::{Value, json};

use super::execution::Execution;

/// Asks the callable `approve`.
pub(super) struct PhpApprover;

impl Approver for PhpApprover {
    fn decide(&self, request: ApprovalRequest) -> ApprovalFuture {
        let execution = Execution::of(&request.context).map(Arc::clone);
        let execution = execution.filter(|execution| execution.callbacks.approve);
        Box::pin(async move {
            let Some(execution) = execution else {
                return Ok(Decision::Undecided);
            };
            let _turn = execution.acquire_turn_unless_held(&request.context).await;
            let mut params = params(&request.tool, &request.arguments, &request.context);
            params["approvalId"] = json!(request.id);
            let mut response = execution
                .request("approve", params, "The approval request")
                .await?;
            let (decision, edited) = (response.decision, response.arguments.take());
            if let Some(Err(failure)) = response.into_output() {
                return Err(failure);
            }
            Ok(match decision {
                Some(true) => edited.map_or(Decision::Approved, Decision::Edited),
                Some(false) => Decision::Denied,
                None => Decision::Undecided,
            })
        })
    }
}

/// Asks the callable `before`.
pub(super) struct PhpGate;

impl CallGate for PhpGate {
    fn enter(&self, call: ReadyCall) -> GateFuture {
        let execution = Execution::of(&call.context).map(Arc::clone);
        let execution = execution.filter(|execution| execution.callbacks.before);
        Box::pin(async move {
            let Some(execution) = execution else {
                return Ok(None);
            };
            let _turn = execution.acquire_turn_unless_held(&call.context).await;
            let mut params = params(&call.tool, &call.arguments, &call.context);
            if let Some(approval) = call.approval {
                params["approvalId"] = json!(approval);
            }
            let response = execution
                .request("before", params, "The check before the call")
                .await?;
            response.into_output().transpose()
        })
    }
}

fn params(tool: &RegisteredTool, arguments: &JsonObject, context: &CallContext) -> Value {
    json!({"name": tool.name(), "callId": context.call_id, "arguments": arguments})
}

/// Notifies the PHP process of the start and the end of each call.
pub(super) struct PhpObserver;

impl Observer for PhpObserver {
    fn on_started(&self, call: &ToolCall, origin: Option<&ToolOrigin>, context: &CallContext) {
        if let Some(execution) = Execution::of(context) {
            let params = json!({"name": call.name, "callId": call.id, "server": server_of(origin)});
            execution.notify_now("notifications/call_started", params);
        }
    }

    fn on_finished(
        &self,
        result: &ToolResult,
        origin: Option<&ToolOrigin>,
        elapsed: Duration,
        context: &CallContext,
    ) {
        if let Some(execution) = Execution::of(context) {
            let params = json!({
                "name": result.tool_name,
                "callId": result.tool_call_id,
                "server": server_of(origin),
                "errorCode": result.error_code,
                "seconds": elapsed.as_secs_f64(),
            });
            execution.notify_now("notifications/call_finished", params);
        }
    }
}

/// Returns the label of the tool's MCP server, or else the server's URL.
fn server_of(origin: Option<&ToolOrigin>) -> Option<&str> {
    match origin? {
        ToolOrigin::Mcp {
            server_label,
            server_url,
        } if server_label.is_empty() => Some(server_url),
        ToolOrigin::Mcp { server_label, .. } => Some(server_label),
        _ => None,
    }
}
