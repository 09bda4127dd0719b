//! `ToolRegistry`: a set of tools.

mod clients;
mod lookup;
mod offer;
mod registration;
mod registry;
mod services;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::PropertyFlags;
use ext_php_rs::types::Zval;
use ext_php_rs::zend::ce;
use pillion_core::registry::RegistryError;
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolResult};
use serde_json::{Value, json};

use super::interfaces::MODEL;
use super::tool_result;
use crate::exception;
use crate::execution::{self, ExecutionParticipants, Mode};
use crate::json::to_value_as;
use crate::zend::{
    Class, Failure, Method, MethodCall, Outcome, Parameter, Property, Type, construct, empty_array,
    state_of,
};

pub use clients::Clients;
use registry::{CLASS, objects};
pub use registry::{NAME, Registry, find_tool, is_registry, registry_of};

pub(super) fn register() -> ZendResult<()> {
    let tool = Type::class("Pillion\\ToolInterface");
    let definition = Type::class("Pillion\\ToolInterface|Pillion\\ToolDefinition");
    let name = Parameter::required("name", Type::STRING);
    let model = Parameter::required("model", MODEL);
    let class = Class::new(NAME)
        .implements(ce::countable())
        .property(Property::new(
            PropertyFlags::Private,
            "tools",
            Type::ARRAY,
            empty_array(),
        ))
        .method(Method::new("__construct", construct_empty))
        .method(
            Method::new("withBuiltins", registration::with_builtins)
                .make_static()
                .parameters(&[Parameter::optional("services", Type::ARRAY, "[]").sensitive()])
                .returns(Type::class(NAME)),
        )
        .method(
            Method::new("register", registration::register_tool)
                .parameters(&[
                    Parameter::required("tool", definition),
                    Parameter::optional("handler", Type::CALLABLE.nullable(), "null"),
                    Parameter::optional("replace", Type::BOOL, "false"),
                ])
                .returns(Type::VOID),
        )
        .method(
            Method::new("registerObject", registration::register_object)
                .parameters(&[
                    Parameter::required("objectOrClass", Type::OBJECT.or(Type::STRING)),
                    Parameter::optional("replace", Type::BOOL, "false"),
                ])
                .returns(Type::ARRAY),
        )
        .method(
            Method::new("registerMcpServer", registration::register_mcp_server)
                .parameters(&[
                    Parameter::required(
                        "server",
                        Type::class("Pillion\\MCPSSEClient|Pillion\\McpClient").or(Type::ARRAY),
                    )
                    .sensitive(),
                    Parameter::optional("prefix", Type::STRING, "''"),
                    Parameter::optional("replace", Type::BOOL, "false"),
                ])
                .returns(Type::ARRAY),
        )
        .method(
            Method::new("alias", registration::alias)
                .parameters(&[
                    Parameter::required("alias", Type::STRING),
                    Parameter::required("tool", Type::STRING),
                ])
                .returns(Type::VOID),
        )
        .method(
            Method::new("unregister", registration::unregister)
                .parameters(&[name])
                .returns(Type::BOOL),
        )
        .method(
            Method::new("has", lookup::has)
                .parameters(&[name])
                .returns(Type::BOOL),
        )
        .method(
            Method::new("get", lookup::get)
                .parameters(&[name])
                .returns(tool.nullable()),
        )
        .method(Method::new("getAll", lookup::get_all).returns(Type::ARRAY))
        .method(Method::new("getMCPTools", offer::get_mcp_tools).returns(Type::ARRAY))
        .method(Method::new("count", lookup::count).returns(Type::INT))
        .method(Method::new("categories", lookup::categories).returns(Type::ARRAY))
        .method(
            Method::new("getSchemas", lookup::get_schemas)
                .parameters(&[Parameter::optional(
                    "category",
                    Type::STRING.nullable(),
                    "null",
                )])
                .returns(Type::ARRAY),
        );
    let class = class
        .method(
            Method::new("getAvailableForModel", offer::available_for_model)
                .parameters(&[model])
                .returns(Type::ARRAY),
        )
        .method(
            Method::new("getDroppedForModel", offer::dropped_for_model)
                .parameters(&[model])
                .returns(Type::ARRAY),
        )
        .method(
            Method::new("getDefinitionsForModel", offer::definitions_for_model)
                .parameters(&[model])
                .returns(Type::ARRAY),
        )
        .method(
            Method::new("getAvailableForProvider", offer::available_for_provider)
                .parameters(&[Parameter::required("providerClass", Type::STRING)])
                .returns(Type::ARRAY),
        )
        .method(
            Method::new("execute", execute)
                .parameters(&[
                    Parameter::required("toolName", Type::STRING),
                    Parameter::required("arguments", Type::ARRAY),
                    Parameter::required("toolCallId", Type::STRING),
                ])
                .returns(Type::class(tool_result::NAME)),
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

/// Runs one tool; the result for an unknown name has HAWKI's message.
fn execute(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let registry = state_of::<Registry>(this)?;
    let (name, id) = (call.string(0)?, call.string(2)?);
    call.array(1)?;
    let arguments = call.value(1).map_or(Ok(Value::Null), |value| {
        to_value_as("argument $arguments", value)
    })?;
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
        object: this,
        hooks: None,
    };
    let results = execution::execute(
        &participants,
        &registry.executor,
        calls,
        context,
        Mode::Sequential,
    )?;
    match results.first() {
        Some(result) => tool_result::new_result(result),
        None => Err(Failure::error("The call has no result")),
    }
}
