use serde_json::{Value, json};

use super::{LlmAnswer, LlmCall};

/// Returns the answer as a response of `generateContent`.
pub(super) fn plain_body(answer: &LlmAnswer) -> Value {
    response(answer, &parts(answer), true)
}

/// Returns the data of the events of the answer's stream: one response per part.
pub(super) fn events(answer: &LlmAnswer) -> Vec<String> {
    let parts = parts(answer);
    let last = parts.len() - 1;
    let parts = parts.into_iter().enumerate();
    let responses = parts.map(|(index, part)| response(answer, &[part], index == last));
    responses.map(|response| response.to_string()).collect()
}

fn response(answer: &LlmAnswer, parts: &[Value], is_last: bool) -> Value {
    let (input, output) = answer.usage.unwrap_or_default();
    let mut response = json!({
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
        let reason = answer.finish.as_deref().unwrap_or("STOP");
        response["candidates"][0]["finishReason"] = json!(reason);
    }
    response
}

fn parts(answer: &LlmAnswer) -> Vec<Value> {
    let mut parts = Vec::new();
    if !answer.text.is_empty() || answer.calls.is_empty() {
        parts.push(json!({"text": answer.text}));
    }
    parts.extend(answer.calls.iter().map(|call| {
        let LlmCall { id, name, .. } = call;
        json!({"functionCall": {"id": id, "name": name, "args": call.object()}})
    }));
    parts
}
