use pillion_core::executor::ReadyCall;
use pillion_core::tool::{ToolFailure, ToolOutput, ToolResult};

use super::callback::{self, CallDetails};
use crate::classes::tool_result::{NAME as TOOL_RESULT, result_of};
use crate::exception;
use crate::mcp::hooks::{self, Hooks};
use crate::zend::Failure;

/// Calls the `before` callable: null lets the call run, a result replaces the call.
pub(super) fn ask(
    hooks: Option<Hooks<'_>>,
    ready: &ReadyCall,
) -> Result<Result<Option<ToolOutput>, ToolFailure>, Failure> {
    let details = CallDetails {
        tool: &ready.tool,
        arguments: &ready.arguments,
        context: &ready.context,
        approval: ready.approval.as_deref(),
    };
    let answer = callback::call_option(hooks, hooks::BEFORE, &details, TOOL_RESULT, |returned| {
        let result = result_of(returned).map_err(exception::as_internal)?;
        Ok(result.map(ToolResult::into_output))
    })?;
    Ok(answer.and_then(Option::transpose))
}
