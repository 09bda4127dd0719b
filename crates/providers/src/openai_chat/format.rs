//! Tools, calls and results in the format of OpenAI's Chat Completions.

use pillion_core::tool::{ToolCall, ToolDefinition, ToolResult, arguments_text};
use serde_json::{Map, Value, json};

use super::OpenAiChat;
use crate::node::{JsonFault, Node, arguments, restore_empty_object};
use crate::openai::OpenAiTool;
use crate::transcript::{self, TranscriptPart, content_text, role_text};
use crate::{Provider, ProviderMembers, StrictFlag, ToolFormat};

#[cfg(test)]
mod tests;

/// The members of a message that providers want to receive back: the model's thinking, as DeepSeek
/// and others name it, and Gemini's signatures.
const MESSAGE_MEMBERS: [&str; 4] = [
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "extra_content",
];

/// The standard members of a call; all other members are specific to the provider.
const CALL_MEMBERS: [&str; 4] = ["id", "type", "function", "index"];

/// A tool message has only text, and many compatible servers and models reject images anywhere, so
/// results contain no media.
impl ToolFormat for OpenAiChat {
    fn provider(&self) -> Provider {
        Provider::OpenAiChat
    }

    fn format_tool(&self, tool: &ToolDefinition, strict_flag: StrictFlag, _: usize) -> Value {
        let tool = OpenAiTool::new(tool);
        let mut function = json!({
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        });
        if tool.is_strict || strict_flag == StrictFlag::Always {
            function["strict"] = json!(tool.is_strict);
        }
        json!({"type": "function", "function": function})
    }

    fn parse_tool_calls(&self, body: &Node<'_>) -> Result<Vec<ToolCall>, JsonFault> {
        let Some(calls) = find_message(body)?.optional("tool_calls")? else {
            return Ok(Vec::new());
        };
        let mut tool_calls = Vec::new();
        for call in calls.items()? {
            // Counts a missing or empty type as `function`, because some compatible servers send no
            // type. Skips calls of type `custom`, which belong to tools that Pillion does not
            // define.
            let is_function = match call.optional("type")? {
                Some(kind) => matches!(kind.text()?, "function" | ""),
                None => true,
            };
            if is_function {
                tool_calls.push(parse_call(&call)?);
            }
        }
        Ok(tool_calls)
    }

    fn text(&self, body: &Node<'_>) -> Result<String, JsonFault> {
        joined_text(body, "text")
    }

    /// Returns the refusal, which is a member beside the content or a part of the content.
    fn refusal(&self, body: &Node<'_>) -> Result<String, JsonFault> {
        match find_message(body)?.optional("refusal")? {
            Some(refusal) => refusal.text().map(str::to_owned),
            None => joined_text(body, "refusal"),
        }
    }

    fn assistant_messages(&self, body: &Node<'_>) -> Result<Vec<Value>, JsonFault> {
        // Parses the calls only to reject an invalid message, which must not be forwarded.
        self.parse_tool_calls(body)?;
        let mut message = restore_empty_object(find_message(body)?.value());
        if let Some(message) = message.as_object_mut() {
            message.entry("role").or_insert(json!("assistant"));
            let is_filled = |calls: &Value| calls.as_array().is_some_and(|calls| !calls.is_empty());
            let has_calls = message.get("tool_calls").is_some_and(is_filled);
            let has_content = message.get("content").is_some_and(|value| !value.is_null());
            if !has_calls && !has_content {
                // Adds an empty content, because the API requires content or calls in a message.
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

    fn format_results(&self, results: &[ToolResult]) -> Vec<Value> {
        results.iter().map(ToolResult::to_message_format).collect()
    }

    fn transcript(&self, message: &Value) -> Vec<TranscriptPart> {
        let role = message["role"].as_str();
        let text = content_text(&message["content"]);
        if role == Some("tool") {
            return vec![transcript::result(&message["tool_call_id"], text)];
        }
        let mut parts = Vec::from_iter(role_text(role, text));
        let refusal = message["refusal"].as_str().unwrap_or_default();
        parts.extend(role_text(role, refusal.to_owned()));
        let calls = message["tool_calls"].as_array();
        parts.extend(calls.into_iter().flatten().map(|call| {
            let function = &call["function"];
            transcript::call(&call["id"], &function["name"], &function["arguments"])
        }));
        parts
    }

    fn result_pointers(&self, message: &Value) -> Vec<String> {
        let is_result = message["role"] == "tool";
        Vec::from_iter(is_result.then(|| "/content".to_owned()))
    }

    /// Returns the error of a body. Google's compatible endpoint sends errors in a list. Some
    /// servers send `false` or an empty `error` beside the choices of an ordinary response, and
    /// some send an error without a member `error`.
    fn error<'a>(&self, body: &'a Value) -> Option<&'a Value> {
        let body = body.get(0).unwrap_or(body);
        let has_choices = body.get("choices").is_some_and(Value::is_array);
        let error = body.get("error").filter(|error| !error.is_null());
        error
            .filter(|error| !(has_choices && is_blank_error(error)))
            .or_else(|| (body["object"] == "error").then_some(body))
    }

    fn provider_members(&self, body: &Value, indexes: &[usize]) -> ProviderMembers {
        let message = &body["choices"][0]["message"];
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let functions: Vec<_> = calls
            .filter(|call| call["type"].is_null() || call["type"] == "function")
            .collect();
        let call_members = indexes.iter().map(|index| {
            let call = functions.get(*index).copied();
            copy_members(call, |name| !CALL_MEMBERS.contains(&name))
        });
        ProviderMembers {
            message: copy_members(Some(message), |name| MESSAGE_MEMBERS.contains(&name)),
            calls: call_members.collect(),
        }
    }
}

fn parse_call(call: &Node<'_>) -> Result<ToolCall, JsonFault> {
    let function = call.required("function")?;
    let mut tool_call = ToolCall::new(
        call.required("id")?.text()?,
        function.required("name")?.text()?,
        arguments(function.optional("arguments")?),
    );
    let index = call.optional("index")?;
    tool_call.index = index.and_then(|index| u32::try_from(index.value().as_u64()?).ok());
    Ok(tool_call)
}

/// Returns the joined content parts of this type; a string counts as one text part.
fn joined_text(body: &Node<'_>, kind: &str) -> Result<String, JsonFault> {
    let Some(content) = find_message(body)?.optional("content")? else {
        return Ok(String::new());
    };
    if content.value().is_string() {
        let text = if kind == "text" { content.text()? } else { "" };
        return Ok(text.to_owned());
    }
    content.joined_text(kind, kind)
}

fn find_message<'a>(body: &Node<'a>) -> Result<Node<'a>, JsonFault> {
    body.required("choices")?.first()?.required("message")
}

/// Returns whether the member `error` of a choice, or of a body with choices, reports no error.
pub(super) fn is_blank_error(error: &Value) -> bool {
    match error {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(_) => false,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

fn copy_members(value: Option<&Value>, is_included: impl Fn(&str) -> bool) -> Map<String, Value> {
    let all_members = value.and_then(Value::as_object).into_iter().flatten();
    let included_members =
        all_members.filter(|(name, value)| is_included(name) && !value.is_null());
    included_members
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
