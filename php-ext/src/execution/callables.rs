//! Calls the callables `approve` and `before` of an executor's options before a tool runs.

use ext_php_rs::types::Zval;
use pillion_core::executor::{ApprovalRequest, Decision, ReadyCall};
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::{CallContext, JsonObject, ToolCall, ToolFailure, ToolOutput, ToolResult};
use serde_json::Value;

use crate::context;
use crate::exception::{self, PhpOutcome};
use crate::json::{EmptyObject, decode_value, to_value};
use crate::mcp::hooks::{self, Hooks};
use crate::values::tool_result::{NAME as TOOL_RESULT, to_tool_result};
use crate::values::{tool_call, tool_definition};
use crate::zend::{Result, call_callable, type_name};

/// Calls the `approve` callable, whose return value decides on the call:
///
/// - true approves the call.
/// - An array approves the call with the arguments in the array.
/// - false denies the call.
/// - null leaves the call undecided.
pub(super) fn call_approve(
    hooks: Option<Hooks<'_>>,
    request: &ApprovalRequest,
) -> PhpOutcome<Decision> {
    let details = CallDetails {
        tool: &request.tool,
        arguments: &request.arguments,
        context: &request.context,
        approval_id: Some(&request.id),
    };
    let expected_type = "bool, arguments by name";
    let decision = call_option(
        hooks,
        hooks::APPROVE_CALLABLE,
        &details,
        expected_type,
        read_decision,
    )?;
    Ok(decision.map(|decision| decision.unwrap_or(Decision::Undecided)))
}

fn read_decision(returned_value: &Zval) -> Result<Option<Decision>> {
    if returned_value.is_array() {
        // An empty array and a list are invalid: an empty array counts as false in PHP conditions,
        // and a list does not contain arguments by name.
        return Ok(match to_value(returned_value)? {
            Value::Object(arguments) => Some(Decision::Edited(arguments)),
            _ => None,
        });
    }
    Ok(returned_value.bool().map(|is_approved| {
        if is_approved {
            Decision::Approved
        } else {
            Decision::Denied
        }
    }))
}

/// Calls the `before` callable. If the callable returns null, the call runs; if it returns a
/// result, the call does not run and has this result.
pub(super) fn call_before(
    hooks: Option<Hooks<'_>>,
    ready_call: &ReadyCall,
) -> PhpOutcome<Option<ToolOutput>> {
    let details = CallDetails {
        tool: &ready_call.tool,
        arguments: &ready_call.arguments,
        context: &ready_call.context,
        approval_id: ready_call.approval.as_deref(),
    };
    let replacement = call_option(
        hooks,
        hooks::BEFORE_CALLABLE,
        &details,
        TOOL_RESULT,
        |returned_value| {
            let result = to_tool_result(returned_value).map_err(exception::into_internal_error)?;
            Ok(result.map(ToolResult::into_output))
        },
    )?;
    Ok(replacement.and_then(Option::transpose))
}

/// The call that a callable decides on.
struct CallDetails<'a> {
    tool: &'a RegisteredTool,
    arguments: &'a JsonObject,
    context: &'a CallContext,
    /// The ID of the call's approval, which may be pending or granted; `None` if the call needs no
    /// approval.
    approval_id: Option<&'a str>,
}

/// Calls a callable of the executor's options: `fn (ToolCall, ToolDefinition, array $context)`.
/// Returns `None` if no callable is set or if the callable returns null.
///
/// The call fails without running if the callable throws an exception or returns an invalid value.
/// `read_value` returns `None` for an invalid value. `expected_type` describes the valid values in
/// the error message.
fn call_option<T>(
    hooks: Option<Hooks<'_>>,
    option: &str,
    details: &CallDetails<'_>,
    expected_type: &str,
    read_value: impl FnOnce(&Zval) -> Result<Option<T>>,
) -> PhpOutcome<Option<T>> {
    let Some(callable) = hooks.and_then(|hooks| hooks.get(option)) else {
        return Ok(Ok(None));
    };
    exception::catch_exception(invoke(&callable, details).and_then(|returned_value| {
        if returned_value.is_null() {
            return Ok(Ok(None));
        }
        Ok(read_value(&returned_value)?.map(Some).ok_or_else(|| {
            let kind = type_name(&returned_value);
            ToolFailure::internal(format!(
                "The callable '{option}' must return {expected_type} or null, not {kind}"
            ))
        }))
    }))
}

fn invoke(callable: &Zval, details: &CallDetails<'_>) -> Result<Zval> {
    let arguments = Value::Object(details.arguments.clone());
    let name = details.tool.name().as_str();
    let call = ToolCall::new(&details.context.call_id, name, arguments);
    let context = context::to_php_json(details.context, details.approval_id);
    call_callable(
        callable,
        [
            tool_call::new_call(&call)?,
            tool_definition::new_definition(details.tool.definition())?,
            decode_value(&context, EmptyObject::Array)?,
        ],
    )
}
