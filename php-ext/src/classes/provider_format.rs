//! `ProviderFormat`: conversion to and from the formats of model providers.

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::ClassFlags;
use pillion_core::tool::{ToolDefinition, ToolResult};
use pillion_providers::{
    Provider, ProviderError, assistant_messages, assistant_text, format_results,
    format_tools_by_name, parse_tool_calls,
};
use serde_json::Value;

use crate::exception;
use crate::json::{EmptyObject, decode_value, to_value};
use crate::values::tool_definition::to_tool_definition;
use crate::values::tool_result::to_tool_result;
use crate::values::{tool_call, tool_definition, tool_result};
use crate::zend::{
    Class, ClassSlot, Failure, MethodCall, Outcome, Result, entries, methods, new_string,
    try_new_list,
};

static CLASS: ClassSlot = ClassSlot::new();

pub(super) fn register() -> ZendResult<()> {
    methods!(
        Class::new("Pillion\\ProviderFormat").flags(ClassFlags::Final),
        "static tools(string $provider, array $definitions): array" => tools,
        "static toolCalls(string $provider, array $response): array" => tool_calls,
        "static text(string $provider, array $response): string" => text,
        "static assistantMessages(string $provider, array $response): array"
            => to_assistant_messages,
        "static results(string $provider, array $results): array" => results,
    )
    .register(&CLASS)
}

fn provider_argument(call: &MethodCall<'_>) -> Result<Provider> {
    let name = call.string(0)?;
    name.parse()
        .map_err(|error: pillion_providers::UnknownProvider| {
            exception::invalid_input(error.to_string())
        })
}

/// Returns the tools in the provider's format; an empty list for an unknown provider.
fn tools(call: &mut MethodCall<'_>) -> Outcome {
    let provider = call.string(0)?;
    let definitions = entries(call.array(1)?)
        .map(|(_, value)| {
            to_tool_definition(&value)?.ok_or_else(|| wrong_class(tool_definition::NAME))
        })
        .collect::<Result<Vec<ToolDefinition>>>()?;
    let tools = format_tools_by_name(provider, &definitions);
    decode_value(&Value::Array(tools), EmptyObject::StdClass)
}

fn wrong_class(class: &str) -> Failure {
    exception::invalid_input(format!("Each element must be a {class}"))
}

fn response_argument(call: &MethodCall<'_>) -> Result<Value> {
    to_value(call.array(1)?)
}

fn malformed_response(error: &ProviderError) -> Failure {
    exception::invalid_input(error.to_string())
}

fn tool_calls(call: &mut MethodCall<'_>) -> Outcome {
    let provider = provider_argument(call)?;
    let parsed_calls = parse_tool_calls(provider, &response_argument(call)?)
        .map_err(|error| malformed_response(&error))?;
    try_new_list(parsed_calls.iter().map(tool_call::new_call))
}

fn text(call: &mut MethodCall<'_>) -> Outcome {
    let provider = provider_argument(call)?;
    assistant_text(provider, &response_argument(call)?)
        .map(new_string)
        .map_err(|error| malformed_response(&error))
}

fn to_assistant_messages(call: &mut MethodCall<'_>) -> Outcome {
    let provider = provider_argument(call)?;
    let messages = assistant_messages(provider, &response_argument(call)?)
        .map_err(|error| malformed_response(&error))?;
    decode_value(&Value::Array(messages), EmptyObject::StdClass)
}

fn results(call: &mut MethodCall<'_>) -> Outcome {
    let provider = provider_argument(call)?;
    let results = entries(call.array(1)?)
        .map(|(_, value)| to_tool_result(&value)?.ok_or_else(|| wrong_class(tool_result::NAME)))
        .collect::<Result<Vec<ToolResult>>>()?;
    let messages = format_results(provider, &results);
    decode_value(&Value::Array(messages), EmptyObject::StdClass)
}
