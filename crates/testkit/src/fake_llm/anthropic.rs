use serde_json::{Value, json};

use super::{LlmAnswer, LlmCall};

/// Returns the answer as a message.
pub(super) fn plain_body(answer: &LlmAnswer) -> Value {
    let mut message = head(answer);
    message["content"] = json!(blocks(answer));
    message["stop_reason"] = json!(stop_reason(answer));
    message
}

/// Returns the data of the events of the answer's stream.
pub(super) fn events(answer: &LlmAnswer) -> Vec<String> {
    let mut events = vec![json!({"type": "message_start", "message": head(answer)})];
    for (index, block) in blocks(answer).into_iter().enumerate() {
        if answer.items.contains(&block) {
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
    let (_, output) = answer.usage.unwrap_or_default();
    events.extend([
        json!({
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason(answer), "stop_sequence": null},
            "usage": {"output_tokens": output},
        }),
        json!({"type": "message_stop"}),
    ]);
    events.iter().map(Value::to_string).collect()
}

fn head(answer: &LlmAnswer) -> Value {
    let (input, output) = answer.usage.unwrap_or_default();
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

fn blocks(answer: &LlmAnswer) -> Vec<Value> {
    let mut blocks = answer.items.clone();
    let is_empty = blocks.is_empty() && answer.calls.is_empty();
    if !answer.text.is_empty() || is_empty {
        blocks.push(json!({"type": "text", "text": answer.text}));
    }
    blocks.extend(answer.calls.iter().map(|call| {
        let LlmCall { id, name, .. } = call;
        json!({"type": "tool_use", "id": id, "name": name, "input": call.object()})
    }));
    blocks
}

fn stop_reason(answer: &LlmAnswer) -> &str {
    let usual = if answer.calls.is_empty() {
        "end_turn"
    } else {
        "tool_use"
    };
    answer.finish.as_deref().unwrap_or(usual)
}
