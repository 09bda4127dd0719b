//! A chat as server-sent events.

use std::time::Duration;

use axum::body::Bytes;
use axum::response::Response;
use pillion_chat::{ChatEvent, Delta};
use serde_json::{Value, json};

use crate::chat::{self, Chat};
use crate::routes::event_stream;

/// The events of a chat that is run now.
pub(super) fn response(chat: Chat, patience: Duration) -> Response {
    let beginning = json!({"id": chat.id(), "model": chat.model()});
    event_stream::response(patience, |events| async move {
        events.send(event("chat", &beginning));
        let listener = {
            let events = events.clone();
            move |happened| {
                if let Some((name, data)) = said_of(happened) {
                    events.send(event(name, &data));
                }
            }
        };
        let ended = chat.run(Some(Box::new(listener))).await;
        events.send(event("done", &json!(ended.answer)));
    })
}

/// What is said of an event, if anything is.
fn said_of(happened: ChatEvent) -> Option<(&'static str, Value)> {
    Some(match happened {
        ChatEvent::Delta(Delta::Text(text)) => ("delta", json!({"text": text})),
        ChatEvent::Delta(Delta::Thought(text)) => ("thought", json!({"text": text})),
        ChatEvent::Status(text) => ("status", json!({"text": text})),
        ChatEvent::ToolStarted(call) => (
            "tool_started",
            json!({
                "id": call.id,
                "name": call.name,
                "arguments": chat::arguments_of(call.arguments),
            }),
        ),
        ChatEvent::ToolFinished(result) => (
            "tool_finished",
            json!({
                "id": result.tool_call_id,
                "name": result.tool_name,
                "success": result.success,
                "content": result.content(),
                "error_code": result.error_code,
            }),
        ),
        ChatEvent::ToolWaiting(waiting) => ("tool_waiting", json!(chat::approval(&waiting))),
        ChatEvent::Usage {
            request,
            usage,
            total,
        } => (
            "usage",
            json!({
                "request": request,
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "total_input_tokens": total.input_tokens,
                "total_output_tokens": total.output_tokens,
            }),
        ),
        // Pieces of calls are of no use before the call begins, and the answer is the end.
        _ => return None,
    })
}

fn event(name: &str, data: &Value) -> Bytes {
    // JSON has no line breaks outside of texts, and none in them that is not escaped.
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}
