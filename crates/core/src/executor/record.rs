use std::time::{Duration, Instant};

use serde_json::json;
use tracing::Span;

use crate::registry::RegisteredTool;
use crate::tool::{
    CallContext, ServerResponse, ToolCall, ToolFailure, ToolOrigin, ToolOutput, ToolResult,
};

/// Creates the span of a call's log lines, with the call, tool, server and user. Unknown values
/// have no field.
pub(super) fn span(call: &ToolCall, tool: Option<&RegisteredTool>, context: &CallContext) -> Span {
    let server = tool.and_then(|tool| match tool.origin() {
        ToolOrigin::Mcp { server_label, .. } => Some(server_label.as_str()),
        ToolOrigin::Native => None,
    });
    tracing::info_span!(
        "call",
        tool.name = %call.name, call.id = %call.id, server.label = server,
        user = context.user.as_deref()
    )
}

/// Turns the outcome of the call into its one result, with `execution_time` in seconds, and logs
/// it. Arguments and results are not logged.
pub(super) struct Recorder {
    id: String,
    name: String,
    started: Instant,
}

impl Recorder {
    pub(super) fn start(call: &ToolCall) -> Self {
        Self {
            id: call.id.clone(),
            name: call.name.clone(),
            started: Instant::now(),
        }
    }

    /// Returns the result, and the MCP server's response if the outcome has one.
    pub(super) fn finish(
        self,
        outcome: Result<ToolOutput, ToolFailure>,
    ) -> (ToolResult, Option<ServerResponse>) {
        let elapsed = self.started.elapsed();
        let Self { id, name, .. } = self;
        let (mut result, response) = match outcome {
            Ok(mut output) => {
                let response = output.response.take();
                (succeeded(id, name, output), response)
            }
            Err(mut failure) => {
                let response = failure.response.take().map(|response| *response);
                (failed(id, name, failure), response)
            }
        };
        let seconds = (elapsed.as_secs_f64() * 1e6).round() / 1e6;
        result
            .metadata
            .insert("execution_time".to_owned(), json!(seconds));
        log(&result, elapsed);
        (result, response)
    }
}

fn succeeded(id: String, name: String, output: ToolOutput) -> ToolResult {
    ToolResult {
        data: output.data,
        metadata: output.metadata,
        ..ToolResult::success(id, name, output.result)
    }
}

fn failed(id: String, name: String, failure: ToolFailure) -> ToolResult {
    let mut result = ToolResult::failure(id, name, failure.code, failure.message);
    result.result = failure.result;
    result.metadata = *failure.metadata;
    result
}

fn log(result: &ToolResult, elapsed: Duration) {
    let name = &result.tool_name;
    let duration_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    match result.error_code {
        None => tracing::info!(
            tool.name = %name, call.id = %result.tool_call_id, duration_ms,
            "Tool `{name}` succeeded"
        ),
        Some(code) => tracing::warn!(
            tool.name = %name, call.id = %result.tool_call_id, duration_ms, error_code = %code,
            "Tool `{name}` failed: {code}"
        ),
    }
}
