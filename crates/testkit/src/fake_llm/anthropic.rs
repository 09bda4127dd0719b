use serde_json::{Value, json};

use super::{LlmCall, LlmResponse};

/// Returns the body of a response that is not streamed: a message.
pub(super) fn plain_body(response: &LlmResponse) -> Value {
    let mut message = head(response);
    message["content"] = json!(blocks(response));
    message["stop_reason"] = json!(stop_reason(response));
    message
}

/// Returns the data of the events of a streamed response.
pub(super) fn events(response: &LlmResponse) -> Vec<String> {
    let mut events = vec![json!({"type": "message_start", "message": head(response)})];
    for (index, block) in blocks(response).into_iter().enumerate() {
        if response.items.contains(&block) {
            events.extend([
                json!({"type": "content_block_start", "index": index, "content_block": block}),
                json!({"type": "content_block_stop", "index": index}),
            ]);
            continue;
        }
        let (start, delta) = if block["type"] == "text" {
            let delta = json!({"type": "text_delta", "text": block["text"]});
            (json!({"type": "text", "text": ""}), delta)
        } else {
            let input = block["input"].to_string();
            let delta = json!({"type": "input_json_delta", "partial_json": input});
            let mut start = block;
            start["input"] = json!({});
            (start, delta)
        };
        events.extend([
            json!({"type": "content_block_start", "index": index, "content_block": start}),
            json!({"type": "content_block_delta", "index": index, "delta": delta}),
            json!({"type": "content_block_stop", "index": index}),
        ]);
    }
    let (_, output) = response.usage.unwrap_or_default();
    events.extend([
        json!({
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason(response), "stop_sequence": null},
            "usage": {"output_tokens": output},
        }),
        json!({"type": "message_stop"}),
    ]);
    events.iter().map(Value::to_string).collect()
}

fn head(response: &LlmResponse) -> Value {
    let (input, output) = response.usage.unwrap_or_default();
    json!({
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": {"input_tokens": input, "output_tokens": output},
    })
}

fn blocks(response: &LlmResponse) -> Vec<Value> {
    let mut blocks = response.items.clone();
    let is_empty = blocks.is_empty() && response.calls.is_empty();
    if !response.text.is_empty() || is_empty {
        blocks.push(json!({"type": "text", "text": response.text}));
    }
    blocks.extend(response.calls.iter().map(|call| {
        let LlmCall { id, name, .. } = call;
        json!({"type": "tool_use", "id": id, "name": name, "input": call.object()})
    }));
    blocks
}

fn stop_reason(response: &LlmResponse) -> &str {
    let usual = if response.calls.is_empty() {
        "end_turn"
    } else {
        "tool_use"
    };
    response.finish.as_deref().unwrap_or(usual)
}
