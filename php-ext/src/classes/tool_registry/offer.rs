use ext_php_rs::types::Zval;

use crate::model::model_argument;
use crate::tools::registry::{Registry, tool_objects};
use crate::values::interfaces::MCP_TOOL;
use crate::zend::{
    MethodCall, Object, Outcome, Result, empty_array, entries, new_list, new_string, read_state,
    with_entries,
};

/// Returns the tools, by name, for which `is_selected` returns true.
fn select(
    this: Object<'_>,
    is_selected: impl Fn(Object<'_>) -> Result<bool>,
) -> Result<Vec<(String, Zval)>> {
    let tools = tool_objects(this)?;
    let mut selected_tools = Vec::new();
    for (name, tool) in entries(&tools) {
        let Some(object) = Object::from_value(&tool) else {
            continue;
        };
        if is_selected(object)? {
            selected_tools.push((name.string().unwrap_or_default(), tool));
        }
    }
    Ok(selected_tools)
}

fn to_array_by_name(tools: Vec<(String, Zval)>) -> Zval {
    with_entries(&empty_array(), tools)
}

pub(super) fn get_mcp_tools(call: &mut MethodCall<'_>) -> Outcome {
    select(call.this(), |tool| Ok(tool.instance_of(MCP_TOOL.get()))).map(to_array_by_name)
}

fn call_bool(tool: Object<'_>, method: &str, argument: &Zval) -> Result<bool> {
    Ok(tool.call(method, [argument.shallow_clone()])?.bool() == Some(true))
}

/// Returns the tools that are offered to a model. Calls `isEnabledForModel()` of each tool, because
/// a PHP tool may override this method.
fn available_tools(call: &MethodCall<'_>) -> Result<Vec<(String, Zval)>> {
    model_argument(call, 0)?;
    let model = call.value_or_null(0);
    select(call.this(), |tool| {
        call_bool(tool, "isEnabledForModel", &model)
    })
}

pub(super) fn get_available_for_model(call: &mut MethodCall<'_>) -> Outcome {
    available_tools(call).map(to_array_by_name)
}

/// Returns the tools that are not offered to a model, with the reasons.
pub(super) fn get_dropped_for_model(call: &mut MethodCall<'_>) -> Outcome {
    let registry = read_state::<Registry>(call.this())?;
    let capabilities = model_argument(call, 0)?;
    let available_tools = available_tools(call)?;
    let mut dropped_tools = Vec::new();
    for tool in registry.tools.tools(None) {
        let name = tool.name().as_str().to_owned();
        let admission = capabilities.admit(&name, tool.origin());
        let is_offered = available_tools
            .iter()
            .any(|(available_name, _)| *available_name == name);
        match admission {
            _ if is_offered => {}
            Ok(()) => dropped_tools.push((name, new_string("isEnabledForModel() returned false"))),
            Err(reason) => dropped_tools.push((name, new_string(reason.to_string()))),
        }
    }
    Ok(to_array_by_name(dropped_tools))
}

/// Returns the definitions of all available tools. An MCP tool without a server is not available.
pub(super) fn get_definitions_for_model(call: &mut MethodCall<'_>) -> Outcome {
    let mut definitions = Vec::new();
    for (_, tool) in available_tools(call)? {
        let Some(object) = Object::from_value(&tool) else {
            continue;
        };
        if !object.instance_of(MCP_TOOL.get())
            || object.call("isServerAvailable", [])?.bool() == Some(true)
        {
            definitions.push(object.call("getDefinition", [])?);
        }
    }
    Ok(new_list(definitions))
}

pub(super) fn get_available_for_provider(call: &mut MethodCall<'_>) -> Outcome {
    let provider = new_string(call.string(0)?);
    let is_available = |tool: Object<'_>| call_bool(tool, "isAvailableForProvider", &provider);
    select(call.this(), is_available).map(to_array_by_name)
}
