use serde_json::{Map, Value, json};

use super::{LlmCall, LlmResponse};

/// The number of characters of a call's arguments in one piece of a stream.
const PIECE: usize = 7;

/// Returns the response as a chat completion.
pub(super) fn plain_body(response: &LlmResponse) -> Value {
    let mut message = Map::new();
    message.insert("role".to_owned(), json!("assistant"));
    message.insert("content".to_owned(), content(response));
    if !response.thought.is_empty() {
        message.insert("reasoning_content".to_owned(), json!(response.thought));
    }
    if !response.calls.is_empty() {
        let calls: Vec<_> = response.calls.iter().map(call).collect();
        message.insert("tool_calls".to_owned(), json!(calls));
    }
    let mut body = json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "fake",
        "choices": [{"index": 0, "message": message, "finish_reason": finish(response)}],
    });
    if let Some(usage) = usage(response) {
        body["usage"] = usage;
    }
    body
}

/// Returns the data of the events of a streamed response. The pieces of several calls are
/// interleaved.
pub(super) fn events(response: &LlmResponse, request: &Value) -> Vec<String> {
    let mut events = vec![delta(&json!({"role": "assistant", "content": ""}))];
    if !response.thought.is_empty() {
        events.push(delta(&json!({"reasoning_content": response.thought})));
    }
    let words = response.text.split_inclusive(' ');
    events.extend(words.map(|word| delta(&json!({"content": word}))));
    let mut rest = Vec::new();
    for (index, call) in response.calls.iter().enumerate() {
        let mut start = json!({"index": index, "type": "function",
                               "function": {"name": call.name, "arguments": ""}});
        if let Some(id) = &call.id {
            start["id"] = json!(id);
        }
        events.push(delta(&json!({ "tool_calls": [start] })));
        rest.push(call.arguments.chars().collect::<Vec<_>>());
    }
    while rest.iter().any(|rest| !rest.is_empty()) {
        for (index, rest) in rest.iter_mut().enumerate() {
            if !rest.is_empty() {
                let piece: String = rest.drain(..PIECE.min(rest.len())).collect();
                let piece = json!({"index": index, "function": {"arguments": piece}});
                events.push(delta(&json!({ "tool_calls": [piece] })));
            }
        }
    }
    let end = json!([{"index": 0, "delta": {}, "finish_reason": finish(response)}]);
    events.push(chunk(&end, None));
    if request["stream_options"]["include_usage"] == true
        && let Some(usage) = usage(response)
    {
        events.push(chunk(&json!([]), Some(usage)));
    }
    events.push("[DONE]".to_owned());
    events
}

fn delta(delta: &Value) -> String {
    let choices = json!([{"index": 0, "delta": delta, "finish_reason": null}]);
    chunk(&choices, None)
}

fn chunk(choices: &Value, usage: Option<Value>) -> String {
    let mut chunk = json!({
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "fake",
        "choices": choices,
    });
    if let Some(usage) = usage {
        chunk["usage"] = usage;
    }
    chunk.to_string()
}

fn content(response: &LlmResponse) -> Value {
    match response.text.as_str() {
        "" if !response.calls.is_empty() => Value::Null,
        text => json!(text),
    }
}

fn call(call: &LlmCall) -> Value {
    let mut value = json!({
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    });
    if let Some(id) = &call.id {
        value["id"] = json!(id);
    }
    value
}

fn finish(response: &LlmResponse) -> String {
    let usual = if response.calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    response.finish.clone().unwrap_or_else(|| usual.to_owned())
}

fn usage(response: &LlmResponse) -> Option<Value> {
    let (input, output) = response.usage?;
    Some(json!({
        "prompt_tokens": input,
        "completion_tokens": output,
        "total_tokens": input + output,
    }))
}
