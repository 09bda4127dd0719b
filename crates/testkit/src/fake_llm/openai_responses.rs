use serde_json::{Value, json};

use super::LlmResponse;

/// Returns the body of a response of OpenAI's Responses.
pub(super) fn plain_body(response: &LlmResponse) -> Value {
    let (input, output) = response.usage.unwrap_or_default();
    let status = if response.finish.is_some() {
        "incomplete"
    } else {
        "completed"
    };
    json!({
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "error": null,
        "incomplete_details": response.finish.as_ref().map(|reason| json!({"reason": reason})),
        "model": "fake",
        "output": items(response),
        "usage": {"input_tokens": input, "output_tokens": output, "total_tokens": input + output},
    })
}

/// Returns the data of the events of a streamed response.
pub(super) fn events(response: &LlmResponse) -> Vec<String> {
    let mut started = plain_body(response);
    started["status"] = json!("in_progress");
    started["output"] = json!([]);
    let mut events = vec![json!({"type": "response.created", "response": started})];
    for (index, item) in items(response).into_iter().enumerate() {
        if response.items.contains(&item) {
            let event = |kind: &str| json!({"type": kind, "output_index": index, "item": item});
            let kinds = ["response.output_item.added", "response.output_item.done"];
            events.extend(kinds.map(event));
            continue;
        }
        let mut start = item.clone();
        start["status"] = json!("in_progress");
        let (kind, delta) = if item["type"] == "message" {
            let delta = start["content"][0]["text"].take();
            start["content"] = json!([]);
            ("response.output_text.delta", delta)
        } else {
            let delta = start["arguments"].take();
            start["arguments"] = json!("");
            ("response.function_call_arguments.delta", delta)
        };
        events.extend([
            json!({"type": "response.output_item.added", "output_index": index, "item": start}),
            json!({"type": kind, "output_index": index, "item_id": item["id"], "content_index": 0, "delta": delta}),
            json!({"type": "response.output_item.done", "output_index": index, "item": item}),
        ]);
    }
    let whole = plain_body(response);
    let end = format!("response.{}", whole["status"].as_str().unwrap_or_default());
    events.push(json!({"type": end, "response": whole}));
    events.iter().map(Value::to_string).collect()
}

fn items(response: &LlmResponse) -> Vec<Value> {
    let mut items = response.items.clone();
    let is_empty = items.is_empty() && response.calls.is_empty();
    if !response.text.is_empty() || is_empty {
        let text = json!({"type": "output_text", "text": response.text, "annotations": []});
        items.push(json!({
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [text],
        }));
    }
    items.extend(response.calls.iter().enumerate().map(|(index, call)| {
        json!({
            "id": format!("fc_{index}"),
            "type": "function_call",
            "status": "completed",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        })
    }));
    items
}
