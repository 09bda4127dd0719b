use ext_php_rs::types::Zval;
use pillion_providers::{Provider, format_tools};
use serde_json::Value;

use crate::json::{EmptyObject, decode_value};
use crate::tools::registry::{Registry, find_tool, objects};
use crate::zend::{MethodCall, Outcome, bool_of, int_of, list_of, state_of, string_of};

pub(super) fn has(call: &mut MethodCall<'_>) -> Outcome {
    let registry = state_of::<Registry>(call.this())?;
    Ok(bool_of(registry.tools.contains(call.string(0)?)))
}

pub(super) fn get(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let registry = state_of::<Registry>(this)?;
    match registry.tools.get(call.string(0)?) {
        Some(tool) => Ok(find_tool(this, tool.name().as_str())?.unwrap_or_default()),
        None => Ok(Zval::new()),
    }
}

pub(super) fn get_all(call: &mut MethodCall<'_>) -> Outcome {
    objects(call.this())
}

pub(super) fn count(call: &mut MethodCall<'_>) -> Outcome {
    let tools = state_of::<Registry>(call.this())?.tools.len();
    Ok(int_of(i64::try_from(tools).unwrap_or(i64::MAX)))
}

pub(super) fn categories(call: &mut MethodCall<'_>) -> Outcome {
    let registry = state_of::<Registry>(call.this())?;
    Ok(list_of(registry.tools.categories().iter().map(string_of)))
}

pub(super) fn get_schemas(call: &mut MethodCall<'_>) -> Outcome {
    let registry = state_of::<Registry>(call.this())?;
    let tools = registry.tools.tools(call.optional_string(0)?);
    let definitions = tools.iter().map(|tool| tool.definition());
    let schemas = format_tools(Provider::OpenAiChat, definitions);
    decode_value(&Value::Array(schemas), EmptyObject::StdClass)
}
