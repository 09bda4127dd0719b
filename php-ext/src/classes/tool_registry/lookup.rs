use ext_php_rs::types::Zval;
use pillion_providers::{Provider, format_tools};
use serde_json::Value;

use crate::json::{EmptyObject, decode_value};
use crate::tools::registry::{Registry, find_tool, tool_objects};
use crate::zend::{MethodCall, Outcome, new_bool, new_int, new_list, new_string, read_state};

pub(super) fn has(call: &mut MethodCall<'_>) -> Outcome {
    let registry = read_state::<Registry>(call.this())?;
    Ok(new_bool(registry.tools.contains(call.string(0)?)))
}

pub(super) fn get(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let registry = read_state::<Registry>(this)?;
    match registry.tools.get(call.string(0)?) {
        Some(tool) => Ok(find_tool(this, tool.name().as_str())?.unwrap_or_default()),
        None => Ok(Zval::new()),
    }
}

pub(super) fn get_all(call: &mut MethodCall<'_>) -> Outcome {
    tool_objects(call.this())
}

pub(super) fn count(call: &mut MethodCall<'_>) -> Outcome {
    let tools = read_state::<Registry>(call.this())?.tools.len();
    Ok(new_int(i64::try_from(tools).unwrap_or(i64::MAX)))
}

pub(super) fn categories(call: &mut MethodCall<'_>) -> Outcome {
    let registry = read_state::<Registry>(call.this())?;
    Ok(new_list(registry.tools.categories().iter().map(new_string)))
}

pub(super) fn get_schemas(call: &mut MethodCall<'_>) -> Outcome {
    let registry = read_state::<Registry>(call.this())?;
    let tools = registry.tools.tools(call.optional_string(0)?);
    let definitions = tools.iter().map(|tool| tool.definition());
    let schemas = format_tools(Provider::OpenAiChat, definitions);
    decode_value(&Value::Array(schemas), EmptyObject::StdClass)
}
