//! Message streams in Anthropic's format.

use axum::body::Bytes;
use pillion_chat::{ChatEvent, Delta};
use serde_json::{Value, json};

use super::response;
use crate::routes::compatible::Writer;
use pillion_management::chat::ChatOutcome;

/// Converts chat events to message events.
pub(super) struct MessageEvents {
    id: String,
    model: String,
    /// The number of blocks that were started.
    block_count: usize,
    /// Whether a text block is open.
    has_text: bool,
    must_begin_paragraph: bool,
}

impl MessageEvents {
    pub(super) fn new(id: &str, model: &str) -> Self {
        Self {
            id: id.to_owned(),
            model: model.to_owned(),
            block_count: 0,
            has_text: false,
            must_begin_paragraph: false,
        }
    }

    /// Starts a block and returns its index.
    fn begin_block(&mut self, block: &Value, bytes: &mut Vec<u8>) -> usize {
        let index = self.block_count;
        self.block_count += 1;
        let event = json!({"type": "content_block_start", "index": index, "content_block": block});
        write_event(bytes, &event);
        index
    }

    /// Writes text to the text block, and starts the block if needed.
    fn write_text(&mut self, text: &str, bytes: &mut Vec<u8>) {
        if !self.has_text {
            self.has_text = true;
            self.begin_block(&json!({"type": "text", "text": ""}), bytes);
        }
        let delta = json!({"type": "text_delta", "text": text});
        write_delta(bytes, self.block_count - 1, &delta);
    }
}

impl Writer for MessageEvents {
    fn begin(&mut self) -> Bytes {
        let mut bytes = Vec::new();
        let message = response::empty_message(&self.id, &self.model);
        write_event(
            &mut bytes,
            &json!({"type": "message_start", "message": message}),
        );
        write_event(&mut bytes, &json!({"type": "ping"}));
        Bytes::from(bytes)
    }

    /// Converts a chat event. Text is sent; the activity of tools becomes SSE comments, which
    /// clients ignore. Thinking is dropped, because clients require its signature, which is not
    /// available here.
    fn convert(&mut self, event: ChatEvent) -> Option<Bytes> {
        let mut bytes = Vec::new();
        match event {
            ChatEvent::Delta(Delta::Text(text)) => {
                let is_paragraph_start = std::mem::take(&mut self.must_begin_paragraph);
                let paragraph = if is_paragraph_start {
                    format!("\n\n{text}")
                } else {
                    text
                };
                self.write_text(&paragraph, &mut bytes);
            }
            ChatEvent::Status(text) => {
                self.must_begin_paragraph = self.has_text;
                let line = text.replace(['\r', '\n'], " ");
                bytes.extend_from_slice(format!(": {line}\n\n").as_bytes());
            }
            _ => return None,
        }
        Some(Bytes::from(bytes))
    }

    /// Returns the remaining events: the calls, the stop reason and the usage.
    fn end(&mut self, outcome: &ChatOutcome) -> Bytes {
        let mut bytes = Vec::new();
        // Writes the whole response if none of its text was streamed, as for a response from the
        // store.
        let text = outcome.response.content.as_deref().unwrap_or_default();
        if !self.has_text && !text.is_empty() {
            self.write_text(text, &mut bytes);
        }
        if self.has_text {
            write_stop(&mut bytes, self.block_count - 1);
        }
        for call in &outcome.calls {
            let mut block = response::format_call(call);
            let input = block["input"].take().to_string();
            block["input"] = json!({});
            let index = self.begin_block(&block, &mut bytes);
            let delta = json!({"type": "input_json_delta", "partial_json": input});
            write_delta(&mut bytes, index, &delta);
            write_stop(&mut bytes, index);
        }
        let message_delta = json!({
            "type": "message_delta",
            "delta": {
                "stop_reason": response::stop_reason(outcome),
                "stop_sequence": response::stop_sequence(outcome),
            },
            "usage": response::usage_json(&outcome.response.usage),
        });
        write_event(&mut bytes, &message_delta);
        write_event(&mut bytes, &json!({"type": "message_stop"}));
        Bytes::from(bytes)
    }

    fn fail(&mut self, error: &Value) -> Bytes {
        let mut bytes = Vec::new();
        write_event(&mut bytes, error);
        Bytes::from(bytes)
    }
}

fn write_delta(bytes: &mut Vec<u8>, index: usize, delta: &Value) {
    let event = json!({"type": "content_block_delta", "index": index, "delta": delta});
    write_event(bytes, &event);
}

fn write_stop(bytes: &mut Vec<u8>, index: usize) {
    write_event(
        bytes,
        &json!({"type": "content_block_stop", "index": index}),
    );
}

/// Writes an event. The event's name is its `type`.
fn write_event(bytes: &mut Vec<u8>, event: &Value) {
    let name = event["type"].as_str().unwrap_or_default();
    bytes.extend_from_slice(format!("event: {name}\ndata: {event}\n\n").as_bytes());
}
