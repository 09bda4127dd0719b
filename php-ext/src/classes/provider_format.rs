//! `ProviderFormat`: conversion to and from the formats of model providers.

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::ClassFlags;
use pillion_core::tool::{ToolDefinition, ToolResult};
use pillion_providers::{
    Provider, ProviderError, assistant_messages, assistant_text, format_results,
    format_tools_by_name, parse_tool_calls,
};
use serde_json::Value;

use super::tool_definition::definition_of;
use super::tool_result::result_of;
use super::{tool_call, tool_definition, tool_result};
use crate::exception;
use crate::json::{EmptyObject, decode_value, to_value};
use crate::zend::{
    Class, ClassSlot, Failure, Method, MethodCall, Outcome, Parameter, Type, entries, list_of,
    string_of,
};

static CLASS: ClassSlot = ClassSlot::new();

pub(super) fn register() -> ZendResult<()> {
    let provider = Parameter::required("provider", Type::STRING);
    let response = Parameter::required("response", Type::ARRAY);
    let method = |method: Method, parameters: &[Parameter], returns: Type| {
        method.make_static().parameters(parameters).returns(returns)
    };
    Class::new("Pillion\\ProviderFormat")
        .flags(ClassFlags::Final)
        .method(method(
            Method::new("tools", tools),
            &[provider, Parameter::required("definitions", Type::ARRAY)],
            Type::ARRAY,
        ))
        .method(method(
            Method::new("toolCalls", tool_calls),
            &[provider, response],
            Type::ARRAY,
        ))
        .method(method(
            Method::new("text", text),
            &[provider, response],
            Type::STRING,
        ))
        .method(method(
            Method::new("assistantMessages", assistant),
            &[provider, response],
            Type::ARRAY,
        ))
        .method(method(
            Method::new("results", results),
            &[provider, Parameter::required("results", Type::ARRAY)],
            Type::ARRAY,
        ))
        .register(&CLASS)
}

fn provider_argument(call: &MethodCall<'_>) -> Result<Provider, Failure> {
    let name = call.string(0)?;
    name.parse()
        .map_err(|error: pillion_providers::UnknownProvider| {
            exception::invalid_input(error.to_string())
        })
}

/// Returns the tools for the request; empty for an unknown provider.
fn tools(call: &mut MethodCall<'_>) -> Outcome {
    let provider = call.string(0)?;
    let definitions = entries(call.array(1)?)
        .map(|(_, value)| definition_of(&value)?.ok_or_else(|| wrong_class(tool_definition::NAME)))
        .collect::<Result<Vec<ToolDefinition>, Failure>>()?;
    let tools = format_tools_by_name(provider, &definitions);
    decode_value(&Value::Array(tools), EmptyObject::StdClass)
}

fn wrong_class(class: &str) -> Failure {
    exception::invalid_input(format!("Each element must be a {class}"))
}

fn response_argument(call: &MethodCall<'_>) -> Result<Value, Failure> {
    call.array(1)?;
    call.value(1).map_or(Ok(Value::Null), to_value)
}

fn malformed(error: &ProviderError) -> Failure {
    exception::invalid_input(error.to_string())
}

fn tool_calls(call: &mut MethodCall<'_>) -> Outcome {
    let provider = provider_argument(call)?;
    let calls =
        parse_tool_calls(provider, &response_argument(call)?).map_err(|error| malformed(&error))?;
    let calls = calls.iter().map(tool_call::new_call);
    Ok(list_of(calls.collect::<Result<Vec<_>, _>>()?))
}

fn text(call: &mut MethodCall<'_>) -> Outcome {
    let provider = provider_argument(call)?;
    assistant_text(provider, &response_argument(call)?)
        .map(string_of)
        .map_err(|error| malformed(&error))
}

fn assistant(call: &mut MethodCall<'_>) -> Outcome {
    let provider = provider_argument(call)?;
    let messages = assistant_messages(provider, &response_argument(call)?)
        .map_err(|error| malformed(&error))?;
    decode_value(&Value::Array(messages), EmptyObject::StdClass)
}

fn results(call: &mut MethodCall<'_>) -> Outcome {
    let provider = provider_argument(call)?;
    let results = entries(call.array(1)?)
        .map(|(_, value)| result_of(&value)?.ok_or_else(|| wrong_class(tool_result::NAME)))
        .collect::<Result<Vec<ToolResult>, Failure>>()?;
    let messages = format_results(provider, &results);
    decode_value(&Value::Array(messages), EmptyObject::StdClass)
}
