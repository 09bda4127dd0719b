//! `ToolInterface` and `MCPToolInterface`.

use ext_php_rs::error::Result;

use crate::zend::{Class, ClassSlot, MethodBody, MethodCall, Outcome, bool_of, methods};

/// The interface `Pillion\ToolInterface`.
pub static TOOL: ClassSlot = ClassSlot::new();
/// The interface `Pillion\MCPToolInterface`.
pub static MCP_TOOL: ClassSlot = ClassSlot::new();

/// The declaration of `execute()`.
pub const EXECUTE: &str = "execute(array $arguments, string $toolCallId): Pillion\\ToolResult";
const FOR_PROVIDER: &str = "isAvailableForProvider(string $providerClass): bool";
const FOR_MODEL: &str = "isEnabledForModel(array|object $model): bool";

/// Adds the methods that decide whether a tool is offered: to every provider, and to a model if
/// `is_enabled` returns true.
pub fn with_offer(class: Class, is_enabled: impl MethodBody) -> Class {
    methods!(
        class,
        FOR_PROVIDER => is_available_for_provider,
        FOR_MODEL => is_enabled,
    )
}

fn is_available_for_provider(call: &mut MethodCall<'_>) -> Outcome {
    call.string(0)?;
    Ok(bool_of(true))
}

pub fn register() -> Result<()> {
    Class::interface("Pillion\\ToolInterface")
        .abstract_methods(&[
            "getName(): string",
            "getDefinition(): Pillion\\ToolDefinition",
            EXECUTE,
            FOR_PROVIDER,
            FOR_MODEL,
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
