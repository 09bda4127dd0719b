//! `CallableTool`: a tool made from a definition and a PHP callable.

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;
use pillion_core::tool::ToolOrigin;

use crate::model::model_argument;
use crate::signature;
use crate::values::interfaces::{EXECUTE_DECLARATION, TOOL, add_offer_methods};
use crate::values::{tool_definition, tool_result};
use crate::zend::{
    Class, ClassSlot, MethodCall, Object, Outcome, Result, call_callable,
    call_with_named_arguments, create, methods, new_bool, new_string,
};

const NAME: &str = "Pillion\\CallableTool";
static CLASS: ClassSlot = ClassSlot::new();

pub fn register() -> ZendResult<()> {
    let class = methods!(
        Class::new(NAME)
            .flags(ClassFlags::Final)
            .implements(TOOL.get())
            .property("readonly Pillion\\ToolDefinition $definition")
            .property("private mixed $handler = null"),
        "__construct(Pillion\\ToolDefinition $definition, callable $handler)" => construct,
        "getName(): string" => get_name,
        "getDefinition(): Pillion\\ToolDefinition" => get_definition,
        EXECUTE_DECLARATION => execute,
    );
    add_offer_methods(class, is_enabled_for_model).register(&CLASS)
}

fn construct(call: &mut MethodCall<'_>) -> Outcome {
    let definition = call
        .value(0)
        .filter(|value| tool_definition::is_definition(value))
        .ok_or_else(|| call.type_error(0, tool_definition::NAME))?;
    let handler = call.callable(1, "callable")?;
    set_properties(call.this(), definition, handler);
    Ok(Zval::new())
}

fn set_properties(this: Object<'_>, definition: &Zval, handler: &Zval) {
    this.set(CLASS.get(), "definition", definition.shallow_clone());
    this.set(CLASS.get(), "handler", handler.shallow_clone());
}

/// Creates a `CallableTool` from a definition and a callable.
pub fn new_tool(definition: &Zval, handler: &Zval) -> Outcome {
    create(CLASS.get(), |this| {
        set_properties(this, definition, handler);
    })
}

/// Returns whether a tool is a `CallableTool`.
pub fn is_callable_tool(tool: Object<'_>) -> bool {
    tool.instance_of(CLASS.get())
}

/// Calls the callable of a `CallableTool`: with the arguments as parameters if the definition was
/// created from a signature, otherwise with all arguments as one array.
pub fn invoke(tool: Object<'_>, arguments: Zval, call_id: &str) -> Outcome {
    let handler = tool.get(CLASS.get(), "handler")?;
    let definition = tool.get(CLASS.get(), "definition")?;
    match tool_definition::read_binding(&definition)? {
        Some(binding) => {
            call_with_named_arguments(&handler, &signature::bind(&binding, &arguments)?)
        }
        None => call_callable(&handler, [arguments, new_string(call_id)]),
    }
}

fn get_definition(call: &mut MethodCall<'_>) -> Outcome {
    call.this().get(CLASS.get(), "definition")
}

fn read_name(this: Object<'_>) -> Result<String> {
    let definition = this.get(CLASS.get(), "definition")?;
    tool_definition::read_name(&definition)
}

fn get_name(call: &mut MethodCall<'_>) -> Outcome {
    Ok(new_string(read_name(call.this())?))
}

/// Runs the callable without checking the arguments, which only executors check.
fn execute(call: &mut MethodCall<'_>) -> Outcome {
    let arguments = call.array(0)?.shallow_clone();
    let id = call.string(1)?;
    let this = call.this();
    let returned_value = invoke(this, arguments, id)?;
    if tool_result::is_result(&returned_value) {
        return Ok(returned_value);
    }
    let result_parts = tool_result::ResultParts {
        result: returned_value,
        ..tool_result::ResultParts::new(id, read_name(this)?)
    };
    result_parts.into_object()
}

fn is_enabled_for_model(call: &mut MethodCall<'_>) -> Outcome {
    let capabilities = model_argument(call, 0)?;
    let name = read_name(call.this())?;
    Ok(new_bool(
        capabilities.admit(&name, &ToolOrigin::Native).is_ok(),
    ))
}
