//! Calls the callables `approve` and `before` of an executor's options before a tool runs.

use ext_php_rs::types::Zval;
use pillion_core::executor::{ApprovalRequest, Decision, ReadyCall};
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::{CallContext, JsonObject, ToolCall, ToolFailure, ToolOutput, ToolResult};
use serde_json::Value;

use crate::context;
use crate::exception::{self, Caught};
use crate::json::{EmptyObject, decode_value, to_value};
use crate::mcp::hooks::{self, Hooks};
use crate::values::tool_result::{NAME as TOOL_RESULT, result_of};
use crate::values::{tool_call, tool_definition};
use crate::zend::{Failure, call_callable, type_name};

/// Calls the `approve` callable. If it returns true, the call is approved; with arguments, the call
/// is approved with these arguments; with false, denied; with null, the call stays undecided.
pub(super) fn approve(hooks: Option<Hooks<'_>>, request: &ApprovalRequest) -> Caught<Decision> {
    let details = CallDetails {
        tool: &request.tool,
        arguments: &request.arguments,
        context: &request.context,
        approval: Some(&request.id),
    };
    let expected = "bool, arguments by name";
    let decision = call_option(hooks, hooks::APPROVE, &details, expected, read_decision)?;
    Ok(decision.map(|decision| decision.unwrap_or(Decision::Undecided)))
}

fn read_decision(returned: &Zval) -> Result<Option<Decision>, Failure> {
    if returned.is_array() {
        // An empty array does not approve the call: it is a list, and false in PHP.
        return Ok(match to_value(returned)? {
            Value::Object(arguments) => Some(Decision::Edited(arguments)),
            _ => None,
        });
    }
    Ok(returned.bool().map(|is_approved| {
        if is_approved {
            Decision::Approved
        } else {
            Decision::Denied
        }
    }))
}

/// Calls the `before` callable. If it returns null, the call runs; if it returns a result, that is
/// the result of the call, which does not run.
pub(super) fn before(hooks: Option<Hooks<'_>>, ready: &ReadyCall) -> Caught<Option<ToolOutput>> {
    let details = CallDetails {
        tool: &ready.tool,
        arguments: &ready.arguments,
        context: &ready.context,
        approval: ready.approval.as_deref(),
    };
    let replacement = call_option(hooks, hooks::BEFORE, &details, TOOL_RESULT, |returned| {
        let result = result_of(returned).map_err(exception::as_internal)?;
        Ok(result.map(ToolResult::into_output))
    })?;
    Ok(replacement.and_then(Option::transpose))
}

/// The call that a callable decides on.
struct CallDetails<'a> {
    tool: &'a RegisteredTool,
    arguments: &'a JsonObject,
    context: &'a CallContext,
    /// The ID of the approval for the call, given or not.
    approval: Option<&'a str>,
}

/// Calls a callable of the executor's options: `fn (ToolCall, ToolDefinition, array $context)`.
/// Returns `None` if no callable is set or if the callable returns null. The call fails without
/// running if the callable throws an exception, or if it returns a value for which `read` returns
/// `None`; the error then names the `expected` type.
fn call_option<T>(
    hooks: Option<Hooks<'_>>,
    option: &str,
    details: &CallDetails<'_>,
    expected: &str,
    read: impl FnOnce(&Zval) -> Result<Option<T>, Failure>,
) -> Caught<Option<T>> {
    let Some(callable) = hooks.and_then(|hooks| hooks.get(option)) else {
        return Ok(Ok(None));
    };
    exception::catch(call(&callable, details).and_then(|returned| {
        if returned.is_null() {
            return Ok(Ok(None));
        }
        Ok(read(&returned)?.map(Some).ok_or_else(|| {
            let kind = type_name(&returned);
            ToolFailure::internal(format!(
                "The callable '{option}' must return {expected} or null, not {kind}"
            ))
        }))
    }))
}

fn call(callable: &Zval, details: &CallDetails<'_>) -> Result<Zval, Failure> {
    let arguments = Value::Object(details.arguments.clone());
    let name = details.tool.name().as_str();
    let call = ToolCall::new(&details.context.call_id, name, arguments);
    let context = context::to_php_json(details.context, details.approval);
    call_callable(
        callable,
        [
            tool_call::new_call(&call)?,
            tool_definition::new_definition(details.tool.definition())?,
            decode_value(&context, EmptyObject::Array)?,
        ],
    )
}
