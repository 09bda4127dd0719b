//! `ToolInterface` and `MCPToolInterface`.

use ext_php_rs::error::Result;

use super::{tool_definition, tool_result};
use crate::zend::{Class, ClassSlot, Method, MethodCall, Outcome, Parameter, Type, bool_of};

/// `Pillion\ToolInterface`.
pub static TOOL: ClassSlot = ClassSlot::new();
/// `Pillion\MCPToolInterface`.
pub static MCP_TOOL: ClassSlot = ClassSlot::new();

/// The type of a model argument: an array or an object (see `model.rs`).
pub const MODEL: Type = Type::ARRAY.or(Type::OBJECT);

/// The parameters of `execute`.
pub const EXECUTE: [Parameter; 2] = [
    Parameter::required("arguments", Type::ARRAY),
    Parameter::required("toolCallId", Type::STRING),
];

const AVAILABLE_FOR_PROVIDER: &str = "isAvailableForProvider";
const ENABLED_FOR_MODEL: &str = "isEnabledForModel";
const PROVIDER_CLASS: [Parameter; 1] = [Parameter::required("providerClass", Type::STRING)];
const MODEL_PARAMETER: [Parameter; 1] = [Parameter::required("model", MODEL)];

/// Adds the methods that decide whether a tool is offered: always to every provider, and to a model
/// if `is_enabled` returns true.
pub(super) fn with_offer<F>(class: Class, is_enabled: F) -> Class
where
    F: Fn(&mut MethodCall<'_>) -> Outcome + Copy + 'static,
{
    class
        .method(
            Method::new(AVAILABLE_FOR_PROVIDER, is_available_for_provider)
                .parameters(&PROVIDER_CLASS)
                .returns(Type::BOOL),
        )
        .method(
            Method::new(ENABLED_FOR_MODEL, is_enabled)
                .parameters(&MODEL_PARAMETER)
                .returns(Type::BOOL),
        )
}

fn is_available_for_provider(call: &mut MethodCall<'_>) -> Outcome {
    call.string(0)?;
    Ok(bool_of(true))
}

pub(super) fn register() -> Result<()> {
    Class::interface("Pillion\\ToolInterface")
        .method(Method::abstract_of("getName").returns(Type::STRING))
        .method(Method::abstract_of("getDefinition").returns(Type::class(tool_definition::NAME)))
        .method(
            Method::abstract_of("execute")
                .parameters(&EXECUTE)
                .returns(Type::class(tool_result::NAME)),
        )
        .method(
            Method::abstract_of(AVAILABLE_FOR_PROVIDER)
                .parameters(&PROVIDER_CLASS)
                .returns(Type::BOOL),
        )
        .method(
            Method::abstract_of(ENABLED_FOR_MODEL)
                .parameters(&MODEL_PARAMETER)
                .returns(Type::BOOL),
        )
        .register(&TOOL)?;
    Class::interface("Pillion\\MCPToolInterface")
        .implements(TOOL.get())
        .method(Method::abstract_of("getMCPServerConfig").returns(Type::ARRAY))
        .method(Method::abstract_of("getMCPCategory").returns(Type::STRING))
        .method(Method::abstract_of("isServerAvailable").returns(Type::BOOL))
        .register(&MCP_TOOL)
}
