//! OpenAI's chat completions, and compatible servers.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::node::{Node, arguments, restored};
use super::offered::OfferedTool;
use super::{Provider, ProviderError, StrictFlag};
use crate::tool::{ToolCall, ToolDefinition, arguments_text};
use pillion_schema::strict;

#[cfg(test)]
mod tests;

pub(super) fn format_tool(tool: &ToolDefinition, strict_flag: StrictFlag) -> Value {
    let offered = OfferedTool::of(Provider::OpenAiChat, tool);
    let (parameters, is_strict) = parameters(tool, offered.schema);
    let mut function = json!({
        "name": offered.name,
        "description": offered.description,
        "parameters": parameters,
    });
    if is_strict || strict_flag == StrictFlag::Always {
        function["strict"] = json!(is_strict);
    }
    json!({"type": "function", "function": function})
}

/// Returns the schema of the arguments for both APIs of OpenAI, and whether it is in the `strict`
/// form. Another schema has an empty `required` if it has none.
pub(super) fn parameters(tool: &ToolDefinition, offered: Cow<'_, Value>) -> (Value, bool) {
    let strict = tool.strict().then(|| strict(&offered)).flatten();
    if let Some(schema) = strict {
        return (schema, true);
    }
    let mut schema = offered.into_owned();
    if !schema["required"].is_array() {
        schema["required"] = json!([]);
    }
    (schema, false)
}

pub(super) fn parse_tool_calls(body: &Node<'_>) -> Result<Vec<ToolCall>, ProviderError> {
    let Some(calls) = message(body)?.optional("tool_calls")? else {
        return Ok(Vec::new());
    };
    let mut parsed = Vec::new();
    for call in calls.items()? {
        // Some compatible servers omit the type or leave it empty. Calls of type `custom` belong to
        // tools that Pillion does not define.
        let is_function = match call.optional("type")? {
            Some(kind) => matches!(kind.text()?, "function" | ""),
            None => true,
        };
        if is_function {
            parsed.push(parse_call(&call)?);
        }
    }
    Ok(parsed)
}

fn parse_call(call: &Node<'_>) -> Result<ToolCall, ProviderError> {
    let function = call.required("function")?;
    let mut parsed = ToolCall::new(
        call.required("id")?.text()?,
        function.required("name")?.text()?,
        arguments(function.optional("arguments")?),
    );
    parsed.index = call
        .optional("index")?
        .and_then(|index| index.value().as_u64())
        .and_then(|index| u32::try_from(index).ok());
    Ok(parsed)
}

pub(super) fn assistant_text(body: &Node<'_>) -> Result<String, ProviderError> {
    said(body, "text")
}

/// Returns the refusal, which is beside the content or part of it.
pub(super) fn refusal(body: &Node<'_>) -> Result<String, ProviderError> {
    match message(body)?.optional("refusal")? {
        Some(refusal) => refusal.text().map(str::to_owned),
        None => said(body, "refusal"),
    }
}

/// Returns the joined content parts of this kind; a string counts as one text part.
fn said(body: &Node<'_>, kind: &str) -> Result<String, ProviderError> {
    let Some(content) = message(body)?.optional("content")? else {
        return Ok(String::new());
    };
    if content.value().is_string() {
        let text = if kind == "text" { content.text()? } else { "" };
        return Ok(text.to_owned());
    }
    let mut text = String::new();
    for part in content.items()? {
        if part.is_type(kind)? {
            text.push_str(part.required(kind)?.text()?);
        }
    }
    Ok(text)
}

pub(super) fn assistant_messages(body: &Node<'_>) -> Result<Vec<Value>, ProviderError> {
    // Parsed first, so that only valid messages are forwarded.
    parse_tool_calls(body)?;
    let mut message = restored(message(body)?.value());
    if let Some(message) = message.as_object_mut() {
        message.entry("role").or_insert(json!("assistant"));
        let is_list = |calls: &Value| calls.as_array().is_some_and(|calls| !calls.is_empty());
        let has_calls = message.get("tool_calls").is_some_and(is_list);
        let has_content = message.get("content").is_some_and(|it| !it.is_null());
        if !has_calls && !has_content {
            // The API requires one of the two.
            message.insert("content".to_owned(), json!(""));
        }
    }
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    for call in calls.into_iter().flatten() {
        if call["type"] == "" {
            call["type"] = json!("function");
        }
        let Some(function) = call.get_mut("function").and_then(Value::as_object_mut) else {
            continue;
        };
        let text = arguments_text(function.get("arguments").unwrap_or(&Value::Null));
        function.insert("arguments".to_owned(), json!(text));
    }
    Ok(vec![message])
}

fn message<'a>(body: &Node<'a>) -> Result<Node<'a>, ProviderError> {
    body.required("choices")?.first()?.required("message")
}
