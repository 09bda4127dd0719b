//! The messages between the sidecar and a worker: lines of JSON-RPC 2.0 with the types of MCP.

use pillion_core::tool::{ErrorCode, ToolFailure, ToolOutput, TraceContext};
use pillion_mcp_client::ProgressNotification;
use pillion_wire::MAX_ID_BYTES;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::WorkerJob;
use crate::rpc_connection::{self, RpcMessage};

/// A message from a worker.
pub(super) enum WorkerMessage {
    /// The response to the request with this ID.
    Response(u64, Result<Box<RawValue>, Value>),
    /// The progress of the request with this ID.
    Progress(u64, ProgressNotification),
    /// The worker accepts no more calls.
    Draining,
    /// A ping, with its ID.
    Ping(Value),
    /// An unknown message, which newer workers may send.
    Other,
}

#[derive(Deserialize)]
struct ProgressParams {
    #[serde(rename = "progressToken")]
    token: u64,
    #[serde(flatten)]
    progress: ProgressNotification,
}

pub(super) fn parse(line: &str) -> Result<WorkerMessage, serde_json::Error> {
    let (id, method, params) = match RpcMessage::parse(line)? {
        RpcMessage::Call { id, method, params } => (id, method, params),
        RpcMessage::Response(id, response) => return Ok(WorkerMessage::Response(id, response)),
    };
    Ok(match (method.as_str(), id) {
        ("ping", Some(id)) if id.get().len() > MAX_ID_BYTES => {
            let message = format!("the id of a ping has more than {MAX_ID_BYTES} bytes");
            return Err(serde::de::Error::custom(message));
        }
        ("ping", Some(id)) => WorkerMessage::Ping(serde_json::from_str(id.get())?),
        ("worker/draining", _) => WorkerMessage::Draining,
        ("notifications/progress", _) => {
            let ProgressParams { token, progress } = serde_json::from_str(params.get())?;
            WorkerMessage::Progress(token, progress)
        }
        _ => WorkerMessage::Other,
    })
}

/// Returns the request for a call.
pub(super) fn call_request(id: u64, tool: &str, job: &WorkerJob) -> String {
    let mut pillion_meta = json!({"callId": job.context.call_id});
    // The member `user` contains only a verified user, because a tool may trust it. A user that the
    // caller merely claims is in another member.
    let context = &job.context;
    let user = context.user.as_deref();
    let claimed_user = user.filter(|_| !context.is_user_verified);
    for (member, text) in [
        ("user", context.verified_user()),
        ("claimedUser", claimed_user),
        ("principal", context.principal.as_deref()),
        ("channel", context.channel.as_deref()),
    ] {
        if let Some(text) = text {
            pillion_meta[member] = json!(text);
        }
    }
    if let Some(deadline) = context.deadline {
        let remaining_time = deadline.saturating_duration_since(Instant::now());
        pillion_meta["deadlineMs"] = json!(remaining_time.as_millis());
    }
    let trace = job.context.trace.as_ref();
    let mut meta = trace.map(TraceContext::to_meta).unwrap_or_default();
    meta.insert("pillion".to_owned(), pillion_meta);
    let params = json!({"name": tool, "arguments": job.arguments, "_meta": meta});
    rpc_connection::request(id, "tools/call", &params)
}

/// Returns the notification that a call is cancelled.
pub(super) fn cancelled_notification(id: u64) -> String {
    let params = json!({"requestId": id, "reason": "The caller no longer waits for the result"});
    rpc_connection::notification("notifications/cancelled", &params)
}

/// Converts a worker's result. Content that is only text becomes the result, and structured content
/// becomes the result's data. A result with other content stays unchanged.
pub(super) fn to_output(result: &Value) -> Result<ToolOutput, ToolFailure> {
    let content = result.get("content").and_then(Value::as_array);
    let blocks = content.map_or(&[][..], Vec::as_slice);
    let texts: Option<Vec<&str>> = blocks
        .iter()
        .map(|block| (block.get("type")? == "text").then(|| block.get("text")?.as_str())?)
        .collect();
    let structured_content = result.get("structuredContent");
    if result.get("isError") == Some(&Value::Bool(true)) {
        let code = result
            .get("errorCode")
            .and_then(|code| ErrorCode::deserialize(code).ok());
        let text = match texts {
            Some(texts) if !texts.is_empty() => texts.join("\n"),
            _ => "The tool reported an error".to_owned(),
        };
        let failure = ToolFailure::new(code.unwrap_or(ErrorCode::InternalError), text);
        return Err(match structured_content {
            Some(data) => failure.with_result(data.clone()),
            None => failure,
        });
    }
    let (Some(texts), Some(_)) = (texts, result.as_object()) else {
        return Ok(ToolOutput::value(result.clone()));
    };
    let text = match (texts.is_empty(), structured_content) {
        (true, Some(data)) => data.to_string(),
        _ => texts.join("\n"),
    };
    Ok(ToolOutput {
        data: structured_content.cloned(),
        ..ToolOutput::text(text)
    })
}
