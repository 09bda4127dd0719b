use std::sync::Arc;

use pillion_core::registry::RegisteredTool;
use pillion_core::tool::{ErrorCode, ToolResult};
use pillion_wire::{Answer, Execution, Failure, Outcome, UnavailableServer};
use serde_json::{Value, json};

use crate::app::App;
use crate::routes::error::shortened;

/// What the API says of a tool that ran (I1, I2).
pub(super) fn ran(app: &App, result: ToolResult) -> Answer {
    let text = text_of(app, &result);
    let (data, model_result) = match result.data {
        Some(data) => (data, Some(result.result)),
        None => (result.result, None),
    };
    Answer::Ran(Execution {
        success: true,
        tool: result.tool_name,
        result: Outcome {
            success: result.success,
            data,
            error: result.error,
            error_code: result.error_code.map(|code| code.as_str().to_owned()),
            result: model_result,
            text,
            metadata: result.metadata,
        },
    })
}

/// The outcome as text. An MCP result that is text and nothing else is that text; in all
/// other cases it is what `to_message` says (A8).
fn text_of(app: &App, result: &ToolResult) -> String {
    let is_mcp = |tool: Arc<RegisteredTool>| tool.origin().is_mcp();
    if result.success && app.registry().get(&result.tool_name).is_some_and(is_mcp) {
        let blocks = result.result.get("content").and_then(Value::as_array);
        let texts: Option<Vec<_>> = blocks.into_iter().flatten().map(text_block).collect();
        if let Some(texts) = texts.filter(|texts| !texts.is_empty()) {
            return texts.join("\n");
        }
    }
    result.to_message()
}

fn text_block(block: &Value) -> Option<&str> {
    let is_text = block.get("type")? == "text";
    block.get("text")?.as_str().filter(|_| is_text)
}

/// What the API says of a tool that is not there (B5). It may be one of a server that is
/// unavailable.
pub(super) fn unknown(app: &App, name: &str, unavailable: &[UnavailableServer]) -> Answer {
    let name = shortened(name);
    let failure = Failure::new(
        ErrorCode::NotFound.as_str(),
        format!("Tool '{name}' not found"),
    );
    let available = json!(app.registry().names());
    let mut failure = failure.for_tool(name).detail("available_tools", available);
    if !unavailable.is_empty() {
        failure = failure.detail("unavailable_servers", json!(unavailable));
    }
    Answer::Refused(failure)
}
