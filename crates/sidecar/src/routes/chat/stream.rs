//! Chats as server-sent events.

use std::time::Duration;

use axum::body::Bytes;
use axum::response::Response;
use pillion_chat::ChatEvent;
use serde_json::{Value, json};

use crate::routes::event_stream;
use pillion_management::chat::Chat;

/// Runs the chat and streams its events.
pub(super) fn stream_response(chat: Chat, max_duration: Duration) -> Response {
    let first_event = json!({"id": chat.id(), "model": chat.model()});
    event_stream::respond_with_job(max_duration, |events| async move {
        events.send(format_event("chat", &first_event));
        let listener = {
            let events = events.clone();
            move |chat_event: ChatEvent| {
                if let Some((name, data)) = chat_event.into_json() {
                    events.send(format_event(name, &data));
                }
            }
        };
        let outcome = Box::pin(chat.run(Some(Box::new(listener)))).await;
        events.send(format_event("done", &json!(outcome.response)));
    })
}

fn format_event(name: &str, data: &Value) -> Bytes {
    // One `data` field is enough, because serialized JSON contains no unescaped line breaks.
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}
