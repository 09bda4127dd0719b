use pillion_core::tool::{ErrorCode, ToolResult};
use pillion_wire::{Answer, Execution, Failure, Outcome, UnavailableServer};
use serde_json::json;

use crate::app::{App, MissingTool};
use crate::client_text::truncate_input;
use crate::upstream::Own;
use crate::visibility::Visibility;

/// Converts the result of a tool to a response.
pub(super) fn ran(result: ToolResult) -> Answer {
    let text = result.to_message();
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

/// Returns the response for a tool that the caller does not have. For a tool that does not exist,
/// the response lists the tools that do, of which `own` are those that only this caller has.
pub(super) fn unknown(
    app: &App,
    visibility: &Visibility,
    own: Option<&Own>,
    name: &str,
    missing: MissingTool,
    unavailable: &[UnavailableServer],
) -> Failure {
    let name = truncate_input(name);
    match missing {
        MissingTool::NoCredential(failure) => {
            Failure::new(failure.code.as_str(), failure.message).for_tool(name)
        }
        MissingTool::Blocked(blocked) => {
            let reason = blocked.reason(&name);
            Failure::new(ErrorCode::Denied.as_str(), reason).for_tool(name)
        }
        MissingTool::Unavailable(absent) => {
            let reason = absent.reason(&name);
            let failure = Failure::new(ErrorCode::Unavailable.as_str(), reason);
            failure
                .for_tool(name)
                .detail("unavailable_servers", json!([absent.server]))
        }
        MissingTool::Unknown => {
            let mut available = app.registry().tools(None);
            available.extend(own.into_iter().flat_map(|own| own.tools.values().cloned()));
            available
                .retain(|tool| tool.is_offered() && visibility.admits(tool, tool.name().as_str()));
            let available: Vec<_> = available.iter().map(|tool| tool.name()).collect();
            let of_own = own.into_iter().flat_map(|own| &own.unavailable);
            let unavailable: Vec<_> = unavailable.iter().chain(of_own).collect();
            let message = format!("Tool '{name}' not found");
            let failure = Failure::new(ErrorCode::NotFound.as_str(), message);
            let failure = failure
                .for_tool(name)
                .detail("available_tools", json!(available));
            match unavailable.is_empty() {
                true => failure,
                false => failure.detail("unavailable_servers", json!(unavailable)),
            }
        }
    }
}
