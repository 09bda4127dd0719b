//! Reads messages in the format of OpenAI's Chat Completions, which applications use. Each
//! provider's module writes the messages in the provider's format.

mod part;

use std::collections::HashMap;

use pillion_core::tool::ToolCall;
use pillion_schema::json_values;
use serde_json::{Value, json};

use crate::node::{JsonFault, Node};
use crate::{ModelError, ModelErrorKind};
pub(crate) use part::{Image, ImageSource, Part};

/// A parsed message.
#[derive(Debug)]
pub(crate) enum ParsedMessage<'a> {
    /// A message of role `system` or `developer`.
    System(String),
    /// A message of the user.
    User(Vec<Part<'a>>),
    /// A message of the model, with the calls that the model has made.
    Assistant {
        parts: Vec<Part<'a>>,
        calls: Vec<ToolCall>,
    },
    /// The result of a call that an earlier message contains.
    Tool {
        call_id: &'a str,
        tool_name: String,
        parts: Vec<Part<'a>>,
    },
}

/// Returns the error text if the content is a failed result: a JSON object with only `error`, as
/// [`ToolResult::to_message_format`](pillion_core::tool::ToolResult::to_message_format) writes it.
pub(crate) fn parse_failure_text(parts: &[Part<'_>]) -> Option<String> {
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

/// Collects messages so that no two successive messages have the same role.
#[derive(Default)]
pub(crate) struct RoleMessages(Vec<(&'static str, Vec<Value>)>);

impl RoleMessages {
    /// Returns the content of the last message if its role is `role`, or else the content of a new
    /// message.
    pub(crate) fn content_for_role(&mut self, role: &'static str) -> &mut Vec<Value> {
        if self.0.last().is_none_or(|(last, _)| *last != role) {
            self.0.push((role, Vec::new()));
        }
        let last_index = self.0.len() - 1;
        &mut self.0[last_index].1
    }

    /// Adds content of a role to the messages. Empty content adds nothing.
    pub(crate) fn add(&mut self, role: &'static str, content: Vec<Value>) {
        if !content.is_empty() {
            self.content_for_role(role).extend(content);
        }
    }

    /// Returns the messages as JSON; `member` names the member that holds each message's content.
    pub(crate) fn into_values(self, member: &str) -> Vec<Value> {
        let to_message =
            |(role, content): (&str, Vec<Value>)| json!({"role": role, member: content});
        self.0.into_iter().map(to_message).collect()
    }
}

/// Parses all messages.
///
/// # Errors
/// [`Rejected`](ModelErrorKind::Rejected), with the path of the invalid part, such as
/// `messages[3].content[0]`.
pub(crate) fn parse_messages(messages: &[Value]) -> Result<Vec<ParsedMessage<'_>>, ModelError> {
    parse_all_messages(messages).map_err(|fault| rejected_error(fault.to_string()))
}

/// Creates the error for messages that cannot be converted to a provider's format.
pub(crate) fn rejected_error(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Rejected, message)
}

fn parse_all_messages(messages: &[Value]) -> Result<Vec<ParsedMessage<'_>>, JsonFault> {
    if messages.is_empty() {
        return Err(JsonFault::Invalid {
            path: "messages".to_owned(),
            problem: "is empty",
        });
    }
    // The tool names of the calls in the messages before the current message, by call ID.
    let mut tool_names = HashMap::new();
    let mut parsed_messages = Vec::with_capacity(messages.len());
    for (index, value) in messages.iter().enumerate() {
        let message = parse_message(&Node::new(value, format!("messages[{index}]")), &tool_names)?;
        if let ParsedMessage::Assistant { calls, .. } = &message {
            for call in calls {
                tool_names.insert(call.id.clone(), call.name.clone());
            }
        }
        parsed_messages.push(message);
    }
    Ok(parsed_messages)
}

fn parse_message<'a>(
    message: &Node<'a>,
    tool_names: &HashMap<String, String>,
) -> Result<ParsedMessage<'a>, JsonFault> {
    let role = message.required("role")?;
    match role.text()? {
        "system" | "developer" => Ok(ParsedMessage::System(parse_system_text(message)?)),
        "user" => {
            let mut parts = part::parse_content(message)?;
            if let Some(name) = message.optional("name")? {
                part::prepend_name(&mut parts, name.text()?);
            }
            Ok(ParsedMessage::User(parts))
        }
        "assistant" => parse_assistant_message(message),
        "tool" => {
            let id = message.required("tool_call_id")?;
            let call_id = id.text()?;
            let tool_name = tool_names
                .get(call_id)
                .ok_or_else(|| id.invalid("names no tool call of an earlier message"))?;
            Ok(ParsedMessage::Tool {
                call_id,
                tool_name: tool_name.clone(),
                parts: part::parse_content(message)?,
            })
        }
        _ => Err(role.invalid("must be one of system, developer, user, assistant and tool")),
    }
}

fn parse_system_text(message: &Node<'_>) -> Result<String, JsonFault> {
    let parts = part::parse_content(message)?;
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Text(part_text) => text.push_str(&part_text),
            Part::Refusal(_) | Part::Image(_) => {
                return Err(message.invalid("must have text only, because its role is system"));
            }
        }
    }
    Ok(text)
}

fn parse_assistant_message<'a>(message: &Node<'a>) -> Result<ParsedMessage<'a>, JsonFault> {
    let mut parts = part::parse_content(message)?;
    if let Some(refusal) = message.optional("refusal")? {
        parts.push(Part::Refusal(refusal.text()?.into()));
    }
    if parts.iter().any(|part| matches!(part, Part::Image(_))) {
        return Err(message.invalid("must have text only, because its role is assistant"));
    }
    if message.optional("function_call")?.is_some() {
        return Err(message.invalid("has a function_call, which is not supported: use tool_calls"));
    }
    let mut calls = Vec::new();
    if let Some(call_list) = message.optional("tool_calls")? {
        for call in call_list.items()? {
            calls.push(parse_call(&call)?);
        }
    }
    Ok(ParsedMessage::Assistant { parts, calls })
}

/// Parses a call. Absent and blank arguments mean no arguments.
fn parse_call(call: &Node<'_>) -> Result<ToolCall, JsonFault> {
    if let Some(kind) = call.optional("type")?
        && kind.text()? != "function"
    {
        return Err(kind.invalid("must be 'function'"));
    }
    let function = call.required("function")?;
    let is_blank = |value: &Value| value.as_str().is_some_and(|text| text.trim().is_empty());
    let arguments = match function.optional("arguments")? {
        Some(node) if !is_blank(node.value()) => node.value().clone(),
        _ => Value::Null,
    };
    Ok(ToolCall::new(
        call.required("id")?.text()?,
        function.required("name")?.text()?,
        arguments,
    ))
}

#[cfg(test)]
mod tests;
