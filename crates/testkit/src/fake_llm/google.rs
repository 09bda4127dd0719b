use serde_json::{Value, json};

use super::{LlmCall, LlmResponse};

/// Returns the body of a response of `generateContent`.
pub(super) fn plain_body(response: &LlmResponse) -> Value {
    body(response, &parts(response), true)
}

/// Returns the data of the events of a streamed response: one body per part.
pub(super) fn events(response: &LlmResponse) -> Vec<String> {
    let parts = parts(response);
    let last = parts.len() - 1;
    let parts = parts.into_iter().enumerate();
    let bodies = parts.map(|(index, part)| body(response, &[part], index == last));
    bodies.map(|body| body.to_string()).collect()
}

fn body(response: &LlmResponse, parts: &[Value], is_last: bool) -> Value {
    let (input, output) = response.usage.unwrap_or_default();
    let mut body = json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
        "usageMetadata": {
            "promptTokenCount": input,
            "candidatesTokenCount": output,
            "totalTokenCount": input + output,
        },
        "modelVersion": "fake",
        "responseId": "response-1",
    });
    if is_last {
        let reason = response.finish.as_deref().unwrap_or("STOP");
        body["candidates"][0]["finishReason"] = json!(reason);
    }
    body
}

fn parts(response: &LlmResponse) -> Vec<Value> {
    let mut parts = Vec::new();
    if !response.text.is_empty() || response.calls.is_empty() {
        parts.push(json!({"text": response.text}));
    }
    parts.extend(response.calls.iter().map(|call| {
        let LlmCall { id, name, .. } = call;
        json!({"functionCall": {"id": id, "name": name, "args": call.object()}})
    }));
    parts
}
