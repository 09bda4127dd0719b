//! Shared setup of the tests.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::executor::Executor;
use crate::registry::ToolRegistry;
use crate::tool::{
    CallContext, ErrorCode, FnTool, JsonObject, ToolCall, ToolDefinition, ToolFailure, ToolOutput,
    ToolResult,
};

/// Returns the definition of a tool without parameters.
pub(crate) fn definition(name: &str) -> ToolDefinition {
    ToolDefinition::builder(name, "A test").build().unwrap()
}

/// Registers a tool that runs a function.
pub(crate) fn add<F, Fut>(registry: &ToolRegistry, definition: ToolDefinition, function: F)
where
    F: Fn(JsonObject, CallContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ToolFailure>> + Send + 'static,
{
    let tool = FnTool::new(definition, function);
    registry.register(Arc::new(tool)).unwrap();
}

/// Registers a tool that returns its arguments.
pub(crate) fn add_echo(registry: &ToolRegistry, definition: ToolDefinition) {
    add(registry, definition, |arguments, _| async move {
        Ok(ToolOutput::value(Value::Object(arguments)))
    });
}

/// Calls a tool.
pub(crate) async fn call(
    executor: &Executor,
    name: &str,
    arguments: Value,
    context: &CallContext,
) -> ToolResult {
    let call = ToolCall::new("c", name, arguments);
    executor.execute_one(call, context).await
}

/// Calls a tool for a user, without arguments.
pub(crate) async fn call_for(executor: &Executor, user: &str, name: &str) -> ToolResult {
    call(executor, name, json!({}), &CallContext::for_user(user)).await
}

/// Checks the error of a failed call.
#[track_caller]
pub(crate) fn assert_failure(result: &ToolResult, code: ErrorCode, message: &str) {
    assert_eq!(result.error.as_deref(), Some(message));
    assert_eq!(result.error_code, Some(code), "{result:?}");
}
