//! Answers as OpenAI's stream of chunks.

use axum::body::Bytes;
use axum::response::Response;
use pillion_chat::{ChatEvent, Delta};
use pillion_wire::ChatUsage;
use serde_json::{Value, json};

use super::{answer, failure_of};
use crate::chat::Chat;
use crate::routes::event_stream;

/// The chunks of a chat that is run now.
pub(super) fn response(chat: Chat, wants_usage: bool) -> Response {
    let chunks = Chunks::new(chat.id(), chat.model(), wants_usage);
    event_stream::response(|events| async move {
        drop(events.send(chunks.first()));
        let mut listening = chunks.clone();
        let listener = {
            let events = events.clone();
            move |happened| {
                if let Some(bytes) = listening.said_of(happened) {
                    drop(events.send(bytes));
                }
            }
        };
        let answer = chat.run(Some(Box::new(listener))).await;
        let last = match answer.success {
            true => chunks.last(
                answer::of_words(answer.finish_reason.as_deref().unwrap_or("stop")),
                &answer.usage,
            ),
            false => data(&failure_of(&answer).1),
        };
        drop(events.send(last));
    })
}

/// Makes chunks of an answer.
#[derive(Clone)]
pub(super) struct Chunks {
    id: String,
    model: String,
    created: u64,
    wants_usage: bool,
    /// Whether there were words, and a call after them.
    has_text: bool,
    is_next_paragraph: bool,
}

impl Chunks {
    pub(super) fn new(id: &str, model: &str, wants_usage: bool) -> Self {
        Self {
            id: format!("chatcmpl-{id}"),
            model: model.to_owned(),
            created: answer::now(),
            wants_usage,
            has_text: false,
            is_next_paragraph: false,
        }
    }

    /// The one that says who speaks.
    pub(super) fn first(&self) -> Bytes {
        self.delta(&json!({"role": "assistant", "content": ""}))
    }

    /// What of an event of a chat is for the client. What tools do is in comments, which clients
    /// leave out.
    fn said_of(&mut self, happened: ChatEvent) -> Option<Bytes> {
        match happened {
            ChatEvent::Delta(delta) => self.piece(delta),
            ChatEvent::Status(text) => {
                self.is_next_paragraph = self.has_text;
                let line = text.replace(['\r', '\n'], " ");
                Some(Bytes::from(format!(": {line}\n\n")))
            }
            _ => None,
        }
    }

    /// A piece of the words; of calls nothing: they run here.
    fn piece(&mut self, delta: Delta) -> Option<Bytes> {
        match delta {
            Delta::Text(text) => {
                let begins = std::mem::take(&mut self.is_next_paragraph);
                self.has_text = true;
                let text = if begins { format!("\n\n{text}") } else { text };
                Some(self.delta(&json!({"content": text})))
            }
            Delta::Thought(text) => Some(self.delta(&json!({"reasoning_content": text}))),
            _ => None,
        }
    }

    /// A piece of an answer whose calls are the client's.
    pub(super) fn piece_with_calls(&mut self, delta: Delta) -> Option<Bytes> {
        let Delta::ToolCall {
            index,
            id,
            name,
            arguments,
        } = delta
        else {
            return self.piece(delta);
        };
        let mut call = json!({"index": index, "function": {"arguments": arguments}});
        if let Some(id) = id {
            call["id"] = json!(id);
            call["type"] = json!("function");
        }
        if let Some(name) = name {
            call["function"]["name"] = json!(name);
        }
        Some(self.delta(&json!({"tool_calls": [call]})))
    }

    /// The end: why, what it cost where that is wanted, and OpenAI's last line.
    pub(super) fn last(&self, reason: &str, usage: &ChatUsage) -> Bytes {
        let end = json!([{"index": 0, "delta": {}, "finish_reason": answer::known(reason)}]);
        let mut bytes = self.chunk(&end, None).to_vec();
        if self.wants_usage {
            let cost = answer::cost(usage);
            bytes.extend_from_slice(&self.chunk(&json!([]), Some(&cost)));
        }
        bytes.extend_from_slice(b"data: [DONE]\n\n");
        Bytes::from(bytes)
    }

    fn delta(&self, delta: &Value) -> Bytes {
        self.chunk(
            &json!([{"index": 0, "delta": delta, "finish_reason": null}]),
            None,
        )
    }

    fn chunk(&self, choices: &Value, usage: Option<&Value>) -> Bytes {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        });
        if let Some(usage) = usage {
            chunk["usage"] = usage.clone();
        }
        data(&chunk)
    }
}

pub(super) fn data(json: &Value) -> Bytes {
    Bytes::from(format!("data: {json}\n\n"))
}
