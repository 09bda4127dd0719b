//! Chats as server-sent events.

use std::time::Duration;

use axum::body::Bytes;
use axum::response::Response;
use pillion_chat::ChatEvent;
use serde_json::{Value, json};

use crate::chat::Chat;
use crate::routes::event_stream;

/// Runs the chat and streams its events.
pub(super) fn response(chat: Chat, max_duration: Duration) -> Response {
    let first_event = json!({"id": chat.id(), "model": chat.model()});
    event_stream::response(max_duration, |events| async move {
        events.send(event("chat", &first_event));
        let listener = {
            let events = events.clone();
            move |happened: ChatEvent| {
                if let Some((name, data)) = happened.into_json() {
                    events.send(event(name, &data));
                }
            }
        };
        let ended = Box::pin(chat.run(Some(Box::new(listener)))).await;
        events.send(event("done", &json!(ended.response)));
    })
}

fn event(name: &str, data: &Value) -> Bytes {
    // Serialized JSON contains no unescaped line breaks.
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}
