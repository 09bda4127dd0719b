//! The messages between the sidecar and a PHP process: lines of JSON-RPC 2.0.

use std::collections::{HashMap, HashSet};

use pillion_core::tool::{
    ApprovalPolicy, JsonObject, ToolCall, ToolFailure, ToolOutput, ToolResult,
};
use serde::Deserialize;
use serde_json::Value;

use pillion_gateway::rpc_connection::{self, RpcMessage};

/// A message from the PHP process.
pub(super) enum PhpMessage {
    /// The request `tools/execute`, with its ID and its parameters.
    Execute(u64, Result<Box<ExecuteParams>, serde_json::Error>),
    /// The PHP process no longer waits for the request with this ID.
    Cancelled(u64),
    /// The response to the request with this ID.
    Response(u64, Result<PhpResponse, ToolFailure>),
    /// A request with an unknown method.
    UnknownRequest(Value),
    /// An unknown notification, which newer libraries may send.
    UnknownNotification,
}

/// The parameters of `tools/execute`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExecuteParams {
    /// The changes to the registry since the previous request.
    pub(super) definitions: Option<Definitions>,
    pub(super) calls: Vec<PhpCall>,
    #[serde(default)]
    pub(super) parallel: bool,
    /// Whether the request comes from PHP code that serves another execution.
    #[serde(default)]
    pub(super) nested: bool,
    pub(super) user: Option<String>,
    pub(super) channel: Option<String>,
    /// The IDs of approvals that the calls may use.
    #[serde(default)]
    pub(super) approved: HashSet<String>,
    /// The arguments that replace those of approved calls, by the ID of the approval.
    #[serde(default)]
    pub(super) approved_arguments: HashMap<String, JsonObject>,
    #[serde(default)]
    pub(super) denied: HashSet<String>,
    /// The headers for calls of the sidecar's own tools, as in a request to the REST API.
    #[serde(default)]
    pub(super) headers: HashMap<String, String>,
    /// The failed result of calls of the sidecar's own tools, if the context has no valid headers.
    pub(super) header_failure: Option<ToolResult>,
    #[serde(default)]
    pub(super) callbacks: Callbacks,
}

impl ExecuteParams {
    /// Returns the approximate size of the context of one call, in bytes.
    pub(super) fn context_bytes(&self) -> usize {
        let ids = self.approved.iter().chain(&self.denied);
        let names = self.user.iter().chain(&self.channel);
        ids.chain(names).map(String::len).sum()
    }
}

/// A call, and whether its tool is PHP code.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PhpCall {
    #[serde(flatten)]
    pub(super) call: ToolCall,
    #[serde(default)]
    pub(super) in_php: bool,
}

/// Which callables of the executor the PHP process has set.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct Callbacks {
    #[serde(default)]
    pub(super) approve: bool,
    #[serde(default)]
    pub(super) before: bool,
}

/// Changes to a PHP registry.
#[derive(Deserialize)]
pub(super) struct Definitions {
    /// Names of removed tools.
    #[serde(default)]
    pub(super) removed: Vec<String>,
    /// New tools, and tools that replace earlier tools with the same names.
    #[serde(default)]
    pub(super) tools: Vec<ToolEntry>,
    /// All aliases, with the name of the tool that each alias refers to.
    #[serde(default)]
    pub(super) aliases: HashMap<String, String>,
}

/// A tool of the PHP registry.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolEntry {
    /// The number that distinguishes the tool from a later tool with the same name.
    pub(super) number: u64,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) input_schema: Value,
    pub(super) category: String,
    #[serde(default)]
    pub(super) strict: bool,
    #[serde(default)]
    pub(super) requires_confirmation: bool,
    #[serde(default)]
    pub(super) cooldown_seconds: f64,
    pub(super) server: Option<ServerEntry>,
    pub(super) approval_policy: Option<ApprovalPolicy>,
    /// The name of the tool in the sidecar's registry, if the sidecar runs the tool.
    pub(super) sidecar_name: Option<String>,
}

/// The MCP server that a tool belongs to.
#[derive(Deserialize)]
pub(super) struct ServerEntry {
    pub(super) label: String,
    pub(super) url: String,
}

/// The response of the PHP process to a request.
#[derive(Default, Deserialize)]
pub(super) struct PhpResponse {
    /// The decision of the callable `approve`.
    pub(super) decision: Option<bool>,
    /// The arguments that replace those of an approved call.
    pub(super) arguments: Option<JsonObject>,
    /// The outcome of a tool or of the callable `before`, or the failure of any callable.
    pub(super) outcome: Option<Box<ToolResult>>,
}

impl PhpResponse {
    /// Returns the output or the failure, if the response has an outcome.
    pub(super) fn into_output(self) -> Option<Result<ToolOutput, ToolFailure>> {
        self.outcome.map(|outcome| outcome.into_output())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelledParams {
    request_id: u64,
}

pub(super) fn parse_message(line: &str) -> Result<PhpMessage, serde_json::Error> {
    let (id, method, params) = match RpcMessage::parse(line)? {
        RpcMessage::Call { id, method, params } => (id, method, params),
        RpcMessage::Response(id, response) => {
            let response = match response {
                Ok(result) => serde_json::from_str(result.get()).map_err(|error| {
                    let message = format!("The result of the PHP code cannot be read: {error}");
                    ToolFailure::internal(message)
                }),
                Err(error) => Err(rpc_connection::parse_failure(
                    &error,
                    "The PHP process reported an error",
                )),
            };
            return Ok(PhpMessage::Response(id, response));
        }
    };
    Ok(match (method.as_str(), id) {
        ("tools/execute", Some(id)) => PhpMessage::Execute(
            serde_json::from_str(id.get())?,
            serde_json::from_str(params.get()),
        ),
        ("notifications/cancelled", None) => {
            let CancelledParams { request_id } = serde_json::from_str(params.get())?;
            PhpMessage::Cancelled(request_id)
        }
        (_, Some(id)) => PhpMessage::UnknownRequest(serde_json::from_str(id.get())?),
        (_, None) => PhpMessage::UnknownNotification,
    })
}
