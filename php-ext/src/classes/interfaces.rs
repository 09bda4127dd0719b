//! `ToolInterface` and `MCPToolInterface` (requirement J2).

use ext_php_rs::error::Result;

use super::{tool_definition, tool_result};
use crate::zend::{Class, ClassSlot, Method, Parameter, Type};

/// `Pillion\ToolInterface`.
pub static TOOL: ClassSlot = ClassSlot::new();
/// `Pillion\MCPToolInterface`.
pub static MCP_TOOL: ClassSlot = ClassSlot::new();

/// A model as the capability filter takes it: an array, or an object (see `model.rs`).
pub const MODEL: Type = Type::ARRAY.or(Type::OBJECT);

/// The parameters of `execute`.
pub const EXECUTE: [Parameter; 2] = [
    Parameter::required("arguments", Type::ARRAY),
    Parameter::required("toolCallId", Type::STRING),
];

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
            Method::abstract_of("isAvailableForProvider")
                .parameters(&[Parameter::required("providerClass", Type::STRING)])
                .returns(Type::BOOL),
        )
        .method(
            Method::abstract_of("isEnabledForModel")
                .parameters(&[Parameter::required("model", MODEL)])
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
