use ext_php_rs::types::Zval;

use crate::model::model_argument;
use crate::tools::registry::{Registry, objects};
use crate::values::interfaces::MCP_TOOL;
use crate::zend::{
    Failure, MethodCall, Object, Outcome, array_of, entries, list_of, state_of, string_of,
};

/// Returns the tools, by name, for which `keep` returns true.
fn select(
    this: Object<'_>,
    keep: impl Fn(Object<'_>) -> Result<bool, Failure>,
) -> Result<Vec<(String, Zval)>, Failure> {
    let tools = objects(this)?;
    let mut selected = Vec::new();
    for (name, tool) in entries(&tools) {
        let Some(object) = Object::from_value(&tool) else {
            continue;
        };
        if keep(object)? {
            selected.push((name.string().unwrap_or_default(), tool));
        }
    }
    Ok(selected)
}

fn by_name(tools: Vec<(String, Zval)>) -> Zval {
    let mut array = Vec::with_capacity(tools.len());
    let (names, objects): (Vec<_>, Vec<_>) = tools.into_iter().unzip();
    for (name, object) in names.iter().zip(objects) {
        array.push((name.as_str(), object));
    }
    array_of(array)
}

pub(super) fn get_mcp_tools(call: &mut MethodCall<'_>) -> Outcome {
    select(call.this(), |tool| Ok(tool.instance_of(MCP_TOOL.get()))).map(by_name)
}

fn is_yes(value: &Zval) -> bool {
    value.bool() == Some(true)
}

/// Returns the tools that are offered to a model. Calls `isEnabledForModel()` of each tool, because
/// PHP tools may have their own rules.
fn available(call: &MethodCall<'_>) -> Result<Vec<(String, Zval)>, Failure> {
    model_argument(call, 0)?;
    let model = [call.value_or_null(0)];
    select(call.this(), |tool| {
        Ok(is_yes(&tool.call(
            "isEnabledForModel",
            model.each_ref().map(Zval::shallow_clone),
        )?))
    })
}

pub(super) fn available_for_model(call: &mut MethodCall<'_>) -> Outcome {
    available(call).map(by_name)
}

/// Returns the tools that are not offered to a model, with the reasons.
pub(super) fn dropped_for_model(call: &mut MethodCall<'_>) -> Outcome {
    let registry = state_of::<Registry>(call.this())?;
    let capabilities = model_argument(call, 0)?;
    let available = available(call)?;
    let mut dropped = Vec::new();
    for tool in registry.tools.tools(None) {
        let name = tool.name().as_str().to_owned();
        let admitted = capabilities.admit(&name, tool.origin());
        let offered = available.iter().any(|(known, _)| *known == name);
        match admitted {
            _ if offered => {}
            Ok(()) => dropped.push((name, "isEnabledForModel() returned false".to_owned())),
            Err(reason) => dropped.push((name, reason.to_string())),
        }
    }
    Ok(array_of(
        dropped
            .iter()
            .map(|(name, reason)| (name.as_str(), string_of(reason))),
    ))
}

/// Returns the definitions of the available tools, except MCP tools without a server.
pub(super) fn definitions_for_model(call: &mut MethodCall<'_>) -> Outcome {
    let mut definitions = Vec::new();
    for (_, tool) in available(call)? {
        let Some(object) = Object::from_value(&tool) else {
            continue;
        };
        if object.instance_of(MCP_TOOL.get()) && !is_yes(&object.call("isServerAvailable", [])?) {
            continue;
        }
        definitions.push(object.call("getDefinition", [])?);
    }
    Ok(list_of(definitions))
}

pub(super) fn available_for_provider(call: &mut MethodCall<'_>) -> Outcome {
    let provider = [string_of(call.string(0)?)];
    select(call.this(), |tool| {
        Ok(is_yes(&tool.call(
            "isAvailableForProvider",
            provider.each_ref().map(Zval::shallow_clone),
        )?))
    })
    .map(by_name)
}
