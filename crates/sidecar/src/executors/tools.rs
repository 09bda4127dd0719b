use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use pillion_core::tool::{
    ApprovalPolicy, CallContext, ErrorCode, JsonObject, Tool, ToolDefinition, ToolFailure,
    ToolFuture, ToolName, ToolOrigin, ToolOutput,
};
use pillion_wire::{ExecuteResponse, Failure, ToolOutcome, route};
use serde::Deserialize;
use serde_json::{Value, json};

use super::execution::Execution;
use crate::current_app::WeakCurrentApp;
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
                    let mut request = Request::post(route::EXECUTE_TOOL.path_with([name.as_str()]))
                        .body(Body::from(Value::Object(arguments).to_string()))
                        .map_err(|error| ToolFailure::internal(error.to_string()))?;
                    *request.headers_mut() = headers;
                    request.extensions_mut().insert(*peer);
                    let router = TowerToHyperService::new(current_app.router());
                    drop(current_app);
                    let Ok(response) = router.call(request).await;
                    let status = response.status();
                    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await;
                    let body = body.map_err(|error| ToolFailure::internal(error.to_string()))?;
                    outcome_of(status, &body)
                }
            }
        })
    }
}

/// Converts the REST API's response to the outcome of a tool.
fn outcome_of(status: StatusCode, body: &[u8]) -> Result<ToolOutput, ToolFailure> {
    let answer = match status {
        StatusCode::OK => serde_json::from_slice(body),
        _ => serde_json::from_slice(body).map(ExecuteResponse::NotFound),
    };
    let answer = answer.map_err(|error| ToolFailure::internal(error.to_string()))?;
    let code_of =
        |code: &str| ErrorCode::deserialize(&json!(code)).unwrap_or(ErrorCode::InternalError);
    let execution = match answer {
        ExecuteResponse::Executed(execution) => execution,
        ExecuteResponse::NotFound(Failure {
            error, error_code, ..
        }) => return Err(ToolFailure::new(code_of(&error_code), error)),
    };
    let ToolOutcome {
        success,
        data,
        error,
        error_code,
        result,
        mut metadata,
        ..
    } = execution.result;
    let (result, data) = match result {
        Some(result) => (result, Some(data)),
        None => (data, None),
    };
    if success {
        return Ok(ToolOutput {
            result,
            data,
            metadata,
            response: None,
        });
    }
    // The executor of the PHP process measures the time.
    metadata.shift_remove("execution_time");
    let code = error_code.map_or(ErrorCode::InternalError, |code| code_of(&code));
    let error = error.unwrap_or_else(|| "The tool failed".to_owned());
    let mut failure = ToolFailure::new(code, error).with_result(result);
    *failure.metadata = metadata;
    Err(failure)
}
