use serde_json::Value;

use super::LlmAnswer;

/// What the obedient model says to a request of chat completions.
pub(super) fn answer(request: &Value) -> LlmAnswer {
    let empty = Vec::new();
    let messages = request["messages"].as_array().unwrap_or(&empty);
    let results: Vec<_> = messages
        .iter()
        .rev()
        .take_while(|message| message["role"] == "tool")
        .map(|message| text(&message["content"]))
        .collect();
    if !results.is_empty() {
        let results: Vec<_> = results.into_iter().rev().collect();
        return LlmAnswer::text(&format!("The tools say: {}", results.join("; ")));
    }
    let said = messages
        .iter()
        .rev()
        .find(|message| message["role"] == "user");
    let said = said
        .map(|message| text(&message["content"]))
        .unwrap_or_default();
    let tools = request["tools"].as_array().unwrap_or(&empty);
    let is_tool = |name: &str| tools.iter().any(|tool| tool["function"]["name"] == name);
    let mut answer = LlmAnswer::default();
    for line in said.lines() {
        if let Some((name, arguments)) = line.trim().split_once(' ')
            && is_tool(name)
            && arguments.trim_start().starts_with('{')
        {
            answer = answer.and_call(name, arguments.trim());
        }
    }
    if answer.calls.is_empty() {
        return LlmAnswer::text(&format!("You said: {said}"));
    }
    // Several turns of one conversation must not use one id twice.
    for (place, call) in answer.calls.iter_mut().enumerate() {
        call.id = Some(format!("call_{}_{place}", messages.len()));
    }
    answer
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
