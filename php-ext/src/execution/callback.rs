use ext_php_rs::types::Zval;
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::{CallContext, JsonObject, ToolCall, ToolFailure};
use serde_json::Value;

use crate::classes::{tool_call, tool_definition};
use crate::context;
use crate::exception;
use crate::json::{EmptyObject, decode_value};
use crate::mcp::hooks::Hooks;
use crate::zend::{Failure, call_callable, should_stop, type_name};

/// The data for a callable that is called before a tool runs.
pub(super) struct CallDetails<'a> {
    pub tool: &'a RegisteredTool,
    pub arguments: &'a JsonObject,
    pub context: &'a CallContext,
    /// The ID of the approval, whether or not it has been given.
    pub approval: Option<&'a str>,
}

/// The answer of the callable; `None` for null.
pub(super) type CallbackAnswer<T> = Result<Option<T>, ToolFailure>;

/// Calls a callable of the executor's options: `fn (ToolCall, ToolDefinition, array $context)`.
/// Returns `None` without a callable. The call fails without running if the callable throws an
/// exception, or if it returns a value for which `read` returns `None`, which is then reported as
/// not `expected`.
pub(super) fn call_option<T>(
    hooks: Option<Hooks<'_>>,
    option: &str,
    details: &CallDetails<'_>,
    expected: &str,
    read: impl FnOnce(&Zval) -> Result<Option<T>, Failure>,
) -> Result<CallbackAnswer<T>, Failure> {
    let Some(callable) = hooks.and_then(|hooks| hooks.get(option)) else {
        return Ok(Ok(None));
    };
    let answer = call(&callable, details).and_then(|returned| {
        if returned.is_null() {
            return Ok(Ok(None));
        }
        Ok(read(&returned)?.map(Some).ok_or_else(|| {
            let kind = type_name(&returned);
            ToolFailure::internal(format!(
                "The callable '{option}' must return {expected} or null, not {kind}"
            ))
        }))
    });
    match answer {
        // A destructor of a discarded value may have thrown.
        Ok(_) if should_stop() => exception::into_tool_failure(Failure::Pending).map(Err),
        Ok(answer) => Ok(answer),
        Err(failure) => exception::into_tool_failure(failure).map(Err),
    }
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
