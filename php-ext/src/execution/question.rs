use ext_php_rs::types::Zval;
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::{CallContext, JsonObject, ToolCall, ToolFailure};
use serde_json::Value;

use crate::classes::{tool_call, tool_definition};
use crate::context;
use crate::exception;
use crate::json::{EmptyObject, decode_value};
use crate::mcp::hooks::Hooks;
use crate::zend::{Failure, call_callable, must_stop, type_name};

/// The data for a callable that is called before a tool runs.
pub(super) struct About<'a> {
    pub tool: &'a RegisteredTool,
    pub arguments: &'a JsonObject,
    pub context: &'a CallContext,
    /// The ID of the approval, whether or not it has been given.
    pub approval: Option<&'a str>,
}

/// The answer of the callable; `None` for null.
pub(super) type Said<T> = Result<Option<T>, ToolFailure>;

/// Calls a callable of the executor's options: `fn (ToolCall, ToolDefinition, array $context)`.
/// Returns `None` without a callable. The call fails without running if the callable throws an
/// exception, or if it returns a value for which `read` returns `None`, which is then reported as
/// not `expected`.
pub(super) fn ask<T>(
    hooks: Option<Hooks<'_>>,
    option: &str,
    about: &About<'_>,
    expected: &str,
    read: impl FnOnce(&Zval) -> Result<Option<T>, Failure>,
) -> Result<Said<T>, Failure> {
    let Some(callable) = hooks.and_then(|hooks| hooks.get(option)) else {
        return Ok(Ok(None));
    };
    let said = call(&callable, about).and_then(|answer| {
        if answer.is_null() {
            return Ok(Ok(None));
        }
        Ok(read(&answer)?.map(Some).ok_or_else(|| {
            let given = type_name(&answer);
            ToolFailure::internal(format!(
                "The callable '{option}' must return {expected} or null, not {given}"
            ))
        }))
    });
    match said {
        // A destructor of a discarded value may have thrown.
        Ok(_) if must_stop() => exception::into_tool_failure(Failure::Pending).map(Err),
        Ok(said) => Ok(said),
        Err(failure) => exception::into_tool_failure(failure).map(Err),
    }
}

fn call(callable: &Zval, about: &About<'_>) -> Result<Zval, Failure> {
    let arguments = Value::Object(about.arguments.clone());
    let name = about.tool.name().as_str();
    let call = ToolCall::new(&about.context.call_id, name, arguments);
    let context = context::shown(about.context, about.approval);
    call_callable(
        callable,
        [
            tool_call::new_call(&call)?,
            tool_definition::new_definition(about.tool.definition())?,
            decode_value(&context, EmptyObject::Array)?,
        ],
    )
}
