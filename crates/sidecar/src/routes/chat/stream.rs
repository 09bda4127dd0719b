//! A chat as server-sent events.

use axum::body::Bytes;
use axum::response::Response;
use pillion_chat::ChatEvent;
use serde_json::{Value, json};

use crate::chat::Chat;
use crate::routes::event_stream;

/// The events of a chat that is run now.
pub(super) fn response(chat: Chat) -> Response {
    let beginning = json!({"id": chat.id(), "model": chat.model()});
    event_stream::response(|events| async move {
        // That nobody reads any more ends this task: what is sent is never in vain.
        drop(events.send(event("chat", &beginning)));
        let listener = {
            let events = events.clone();
            move |happened: ChatEvent| {
                if let Some((name, data)) = happened.shown() {
                    drop(events.send(event(name, &data)));
                }
            }
        };
        let answer = chat.run(Some(Box::new(listener))).await;
        drop(events.send(event("done", &json!(answer))));
    })
}

fn event(name: &str, data: &Value) -> Bytes {
    // JSON has no line breaks outside of texts, and none in them that is not escaped.
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}
