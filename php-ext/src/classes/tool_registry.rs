//! `ToolRegistry`: a set of tools.

mod lookup;
mod offer;
mod registration;
mod services;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::types::Zval;
use ext_php_rs::zend::ce;
use pillion_core::registry::RegistryError;
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolResult};
use serde_json::json;

use crate::exception;
use crate::execution::{self, ExecutionMode, ExecutionParticipants};
use crate::json::to_value_as;
use crate::tools::registry::{CLASS, NAME, Registry};
use crate::values::tool_result;
use crate::zend::{Class, Failure, MethodCall, Outcome, construct, methods, read_state};

pub(super) fn register() -> ZendResult<()> {
    let class = methods!(
        Class::new(NAME)
            .implements(ce::countable())
            .property("private array $tools = []"),
        "__construct()" => construct_empty,
        "static withBuiltins(#[SensitiveParameter] array $services = []): Pillion\\ToolRegistry"
            => registration::with_builtins,
        "register(Pillion\\ToolInterface|Pillion\\ToolDefinition $tool, ?callable $handler = null, \
         bool $replace = false): void" => registration::register_tool,
        "registerObject(object|string $objectOrClass, \
         bool $replace = false): array" => registration::register_object,
        "registerMcpServer(\
         #[SensitiveParameter] Pillion\\MCPSSEClient|Pillion\\McpClient|array $server, \
         string $prefix = '', bool $replace = false): array" => registration::register_mcp_server,
        "alias(string $alias, string $tool): void" => registration::alias,
        "unregister(string $name): bool" => registration::unregister,
        "has(string $name): bool" => lookup::has,
        "get(string $name): ?Pillion\\ToolInterface" => lookup::get,
        "getAll(): array" => lookup::get_all,
        "getMCPTools(): array" => offer::get_mcp_tools,
        "count(): int" => lookup::count,
        "categories(): array" => lookup::categories,
        "getSchemas(?string $category = null): array" => lookup::get_schemas,
        "getAvailableForModel(array|object $model): array" => offer::get_available_for_model,
        "getDroppedForModel(array|object $model): array" => offer::get_dropped_for_model,
        "getDefinitionsForModel(array|object $model): array" => offer::get_definitions_for_model,
        "getAvailableForProvider(string $providerClass): array"
            => offer::get_available_for_provider,
        "execute(string $toolName, array $arguments, \
         string $toolCallId): Pillion\\ToolResult" => execute,
    );
    CLASS.register(class)
}

fn construct_empty(call: &mut MethodCall<'_>) -> Outcome {
    construct(call.this(), Registry::new())?;
    Ok(Zval::new())
}

fn registry_failure(error: &RegistryError) -> Failure {
    exception::invalid_input(error.to_string())
}

/// Runs one tool. If no tool has this name, the result has the same error message as in HAWKI.
fn execute(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let registry = read_state::<Registry>(this)?;
    let (name, id) = (call.string(0)?, call.string(2)?);
    let arguments = to_value_as("argument $arguments", call.array(1)?)?;
    if !registry.tools.contains(name) {
        let mut result = ToolResult::failure(
            id,
            name,
            ErrorCode::NotFound,
            format!("Tool '{name}' is not registered"),
        );
        result.result = json!({"error": "Tool not found"});
        return tool_result::new_result(&result);
    }
    let calls = vec![ToolCall::new(id, name, arguments)];
    let context = CallContext::default();
    let participants = ExecutionParticipants {
        registry,
        registry_object: this,
        hooks: None,
    };
    let results = execution::execute(
        &participants,
        &registry.executor,
        calls,
        context,
        ExecutionMode::Sequential,
    )?;
    tool_result::new_first_result(&results)
}
