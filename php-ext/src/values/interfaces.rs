//! `ToolInterface` and `MCPToolInterface`.

use ext_php_rs::error::Result;

use crate::zend::{Class, ClassSlot, MethodBody, MethodCall, Outcome, methods, new_bool};

/// The interface `Pillion\ToolInterface`.
pub static TOOL: ClassSlot = ClassSlot::new();
/// The interface `Pillion\MCPToolInterface`.
pub static MCP_TOOL: ClassSlot = ClassSlot::new();

/// The declaration of `execute()`.
pub const EXECUTE_DECLARATION: &str =
    "execute(array $arguments, string $toolCallId): Pillion\\ToolResult";
const AVAILABILITY_DECLARATION: &str = "isAvailableForProvider(string $providerClass): bool";
const ENABLED_DECLARATION: &str = "isEnabledForModel(array|object $model): bool";

/// Adds the methods that determine to which providers and models a tool is offered. The tool is
/// offered to every provider, and to each model for which `is_enabled` returns true.
pub fn add_offer_methods(class: Class, is_enabled: impl MethodBody) -> Class {
    methods!(
        class,
        AVAILABILITY_DECLARATION => is_available_for_provider,
        ENABLED_DECLARATION => is_enabled,
    )
}

fn is_available_for_provider(call: &mut MethodCall<'_>) -> Outcome {
    call.string(0)?;
    Ok(new_bool(true))
}

pub fn register() -> Result<()> {
    Class::interface("Pillion\\ToolInterface")
        .abstract_methods(&[
            "getName(): string",
            "getDefinition(): Pillion\\ToolDefinition",
            EXECUTE_DECLARATION,
            AVAILABILITY_DECLARATION,
            ENABLED_DECLARATION,
        ])
        .register(&TOOL)?;
    Class::interface("Pillion\\MCPToolInterface")
        .implements(TOOL.get())
        .abstract_methods(&[
            "getMCPServerConfig(): array",
            "getMCPCategory(): string",
            "isServerAvailable(): bool",
        ])
        .register(&MCP_TOOL)
}
