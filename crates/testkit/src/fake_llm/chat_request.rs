use serde_json::Value;

use super::LlmDialect;

/// The parts of a chat request that the obedient model uses.
#[derive(Debug, Default)]
pub(super) struct ChatRequest {
    /// The length of the conversation, in messages or items.
    pub(super) length: usize,
    /// The names of the tools that the model may call.
    pub(super) tools: Vec<String>,
    /// The user's last message.
    pub(super) last_message: String,
    /// The tool results at the end of the conversation, in the order of the calls.
    pub(super) results: Vec<String>,
}

impl ChatRequest {
    pub(super) fn from_body(dialect: LlmDialect, request: &Value) -> Self {
        match dialect {
            LlmDialect::OpenAiChat => Self::in_chat(request),
            LlmDialect::OpenAiResponses => Self::in_items(request),
            LlmDialect::Anthropic => Self::in_blocks(request),
            LlmDialect::Google => Self::in_parts(request),
        }
    }

    fn in_chat(request: &Value) -> Self {
        let messages = list(&request["messages"]);
        let tools = list(&request["tools"]).iter();
        Self {
            length: messages.len(),
            tools: names(tools.map(|tool| &tool["function"])),
            last_message: last_of_user(messages, "content"),
            results: after(messages, |message| {
                (message["role"] == "tool").then(|| text(&message["content"]))
            }),
        }
    }

    fn in_items(request: &Value) -> Self {
        let items = list(&request["input"]);
        Self {
            length: items.len(),
            tools: names(list(&request["tools"]).iter()),
            last_message: last_of_user(items, "content"),
            results: after(items, |item| {
                (item["type"] == "function_call_output").then(|| text(&item["output"]))
            }),
        }
    }

    fn in_blocks(request: &Value) -> Self {
        let messages = list(&request["messages"]);
        let last = messages.last().map(|message| list(&message["content"]));
        let may_call = request["tool_choice"]["type"] != "none";
        let tools = if may_call {
            list(&request["tools"])
        } else {
            &[]
        };
        Self {
            length: messages.len(),
            tools: names(tools.iter()),
            last_message: last_of_user(messages, "content"),
            results: after(last.unwrap_or_default(), |block| {
                (block["type"] == "tool_result").then(|| text(&block["content"]))
            }),
        }
    }

    fn in_parts(request: &Value) -> Self {
        let contents = list(&request["contents"]);
        let last = contents.last().map(|content| list(&content["parts"]));
        let tools = list(&request["tools"]).iter();
        Self {
            length: contents.len(),
            tools: names(tools.flat_map(|tool| list(&tool["functionDeclarations"]))),
            last_message: last_of_user(contents, "parts"),
            results: after(last.unwrap_or_default(), |part| {
                let response = part.get("functionResponse")?.get("response")?;
                let result = response.get("result").unwrap_or(response);
                Some(
                    result
                        .as_str()
                        .map_or_else(|| result.to_string(), str::to_owned),
                )
            }),
        }
    }
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn names<'a>(tools: impl Iterator<Item = &'a Value>) -> Vec<String> {
    let names = tools.filter_map(|tool| tool["name"].as_str());
    names.map(str::to_owned).collect()
}

/// Returns the tool results at the end of the messages.
fn after(messages: &[Value], result: impl Fn(&Value) -> Option<String>) -> Vec<String> {
    let mut results: Vec<_> = messages.iter().rev().map_while(result).collect();
    results.reverse();
    results
}

fn last_of_user(messages: &[Value], content: &str) -> String {
    let mut messages = messages.iter().rev();
    let last_message = messages.find(|message| message["role"] == "user");
    last_message
        .map(|message| text(&message[content]))
        .unwrap_or_default()
}

fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
