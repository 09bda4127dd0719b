use pillion_core::tool::{ErrorCode, ToolFailure, ToolResult};
use pillion_wire::{Answer, Execution, Failure, Outcome, UnavailableServer};
use serde_json::json;

use crate::app::App;
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

/// Returns whether the caller may see a tool of this name; `own` has the tools that are listed for
/// the caller's user.
pub(super) fn is_known(app: &App, visibility: &Visibility, own: &Own, name: &str) -> bool {
    let tool = app.registry().get(name);
    let tool = tool.or_else(|| own.tools.get(name).cloned());
    tool.is_some_and(|tool| visibility.admits(&tool, name))
}

/// Returns the response for a tool that does not exist. The error is `unavailable` if the name has
/// the prefix of an unavailable server, and names the missing credential if the server has none for
/// the caller. The response does not reveal a tool that the caller may not see.
pub(super) fn unknown(
    app: &App,
    visibility: &Visibility,
    own: &Own,
    name: &str,
    unavailable: &[UnavailableServer],
) -> Failure {
    let refused = own.refusal(name);
    let refused = refused.filter(|refused| visibility.admits_named(name, name, &refused.origin));
    if let Some(refused) = refused {
        let ToolFailure { code, message, .. } = &refused.failure;
        let failure = Failure::new(code.as_str(), message.clone());
        return failure.for_tool(truncate_input(name));
    }
    let blocked = app.upstreams().blocked(name).filter(|blocked| {
        let (registered_as, origin) = (blocked.name(), blocked.origin());
        visibility.admits_named(&registered_as, name, &origin)
    });
    if let Some(blocked) = blocked {
        let name = truncate_input(name);
        let failure = Failure::new(ErrorCode::Denied.as_str(), blocked.reason(&name));
        return failure.for_tool(name);
    }
    let of_all = unavailable.iter().chain(&own.unavailable);
    let absent = app.upstreams().absent(name, of_all);
    let absent = absent.filter(|absent| visibility.admits_named(name, name, &absent.origin));
    if let Some(absent) = absent {
        let name = truncate_input(name);
        let failure = Failure::new(ErrorCode::Unavailable.as_str(), absent.reason(&name));
        return failure
            .for_tool(name)
            .detail("unavailable_servers", json!([absent.server]));
    }
    let name = truncate_input(name);
    let failure = Failure::new(
        ErrorCode::NotFound.as_str(),
        format!("Tool '{name}' not found"),
    );
    let mut available = app.registry().tools(None);
    available.extend(own.tools.values().cloned());
    available.retain(|tool| tool.is_offered() && visibility.admits(tool, tool.name().as_str()));
    let available: Vec<_> = available.iter().map(|tool| tool.name()).collect();
    let unavailable: Vec<_> = unavailable.iter().chain(&own.unavailable).collect();
    let mut failure = failure
        .for_tool(name)
        .detail("available_tools", json!(available));
    if !unavailable.is_empty() {
        failure = failure.detail("unavailable_servers", json!(unavailable));
    }
    failure
}
