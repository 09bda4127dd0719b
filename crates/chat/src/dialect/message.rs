//! Reads messages in the format of OpenAI's Chat Completions, which applications use. Each
//! provider's file writes them in the provider's format.

mod node;
mod part;

use std::collections::HashMap;

use pillion_core::json_values;
use pillion_core::tool::ToolCall;
use serde_json::Value;

use crate::ModelError;
use node::MessageNode;
pub(super) use part::{Image, ImageSource, Part};

/// A parsed message.
#[derive(Debug)]
pub(super) enum ParsedMessage<'a> {
    /// A message of role `system` or `developer`.
    System(String),
    /// A message of the user.
    User(Vec<Part<'a>>),
    /// A message of the model, with its calls.
    Assistant {
        parts: Vec<Part<'a>>,
        calls: Vec<ToolCall>,
    },
    /// The result of a call of an earlier message.
    Tool {
        call_id: &'a str,
        tool_name: String,
        parts: Vec<Part<'a>>,
    },
}

/// Returns the error text if the content is a failed result: a JSON object with only `error`, as
/// [`ToolResult::to_message_format`](pillion_core::tool::ToolResult::to_message_format) writes it.
pub(super) fn failure_text(parts: &[Part<'_>]) -> Option<String> {
    let [Part::Text(text)] = parts else {
        return None;
    };
    if !text.trim_start().starts_with('{') {
        return None;
    }
    match json_values::from_str(text) {
        Ok(Value::Object(members)) if members.len() == 1 => match members.get("error") {
            Some(Value::String(error)) => Some(error.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Parses all messages.
///
/// # Errors
/// [`Refused`](crate::ModelErrorKind::Refused) with the position, such as `messages[3].content[0]`.
pub(super) fn read(messages: &[Value]) -> Result<Vec<ParsedMessage<'_>>, ModelError> {
    if messages.is_empty() {
        return Err(node::refusal("messages is empty"));
    }
    // The tool names of the calls so far, by call id.
    let mut called = HashMap::new();
    let mut read = Vec::with_capacity(messages.len());
    for (index, value) in messages.iter().enumerate() {
        let message = read_message(
            &MessageNode::new(value, format!("messages[{index}]")),
            &called,
        )?;
        if let ParsedMessage::Assistant { calls, .. } = &message {
            called.extend(
                calls
                    .iter()
                    .map(|call| (call.id.clone(), call.name.clone())),
            );
        }
        read.push(message);
    }
    Ok(read)
}

fn read_message<'a>(
    message: &MessageNode<'a>,
    called: &HashMap<String, String>,
) -> Result<ParsedMessage<'a>, ModelError> {
    let role = message.required("role")?;
    match role.text()? {
        "system" | "developer" => Ok(ParsedMessage::System(system_text(message)?)),
        "user" => {
            let mut parts = part::of_content(message)?;
            if let Some(name) = message.optional("name")? {
                part::put_name(&mut parts, name.text()?);
            }
            Ok(ParsedMessage::User(parts))
        }
        "assistant" => assistant(message),
        "tool" => {
            let id = message.required("tool_call_id")?;
            let call_id = id.text()?;
            let tool_name = called
                .get(call_id)
                .ok_or_else(|| id.error("names no tool call of an earlier message"))?;
            Ok(ParsedMessage::Tool {
                call_id,
                tool_name: tool_name.clone(),
                parts: part::of_content(message)?,
            })
        }
        _ => Err(role.error("must be one of system, developer, user, assistant and tool")),
    }
}

fn system_text(message: &MessageNode<'_>) -> Result<String, ModelError> {
    let parts = part::of_content(message)?;
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Text(more) => text.push_str(&more),
            Part::Refusal(_) | Part::Image(_) => {
                return Err(message.error("must have text only, because its role is system"));
            }
        }
    }
    Ok(text)
}

fn assistant<'a>(message: &MessageNode<'a>) -> Result<ParsedMessage<'a>, ModelError> {
    let mut parts = part::of_content(message)?;
    if let Some(refusal) = message.optional("refusal")? {
        parts.push(Part::Refusal(refusal.text()?));
    }
    if parts.iter().any(|part| matches!(part, Part::Image(_))) {
        return Err(message.error("must have text only, because its role is assistant"));
    }
    if message.optional("function_call")?.is_some() {
        return Err(message.error("has a function_call, which is not supported: use tool_calls"));
    }
    let mut calls = Vec::new();
    if let Some(list) = message.optional("tool_calls")? {
        for call in list.items()? {
            calls.push(read_call(&call)?);
        }
    }
    Ok(ParsedMessage::Assistant { parts, calls })
}

/// Parses a call. Absent and blank arguments mean no arguments.
fn read_call(call: &MessageNode<'_>) -> Result<ToolCall, ModelError> {
    if let Some(kind) = call.optional("type")?
        && kind.text()? != "function"
    {
        return Err(kind.error("must be 'function'"));
    }
    let function = call.required("function")?;
    let arguments = match function.optional("arguments")? {
        Some(arguments) => arguments.value().clone(),
        None => Value::Null,
    };
    let is_blank = arguments
        .as_str()
        .is_some_and(|text| text.trim().is_empty());
    Ok(ToolCall::new(
        call.required("id")?.text()?,
        function.required("name")?.text()?,
        if is_blank { Value::Null } else { arguments },
    ))
}

#[cfg(test)]
mod tests;
