//! Chat completion streams in OpenAI's format.

use axum::body::Bytes;
use pillion_chat::{ChatEvent, Delta};
use serde_json::{Value, json};

use super::calls::CallPieces;
use super::response;
use crate::chat::ChatOutcome;
use crate::routes::compatible::Writer;

/// Converts chat events to chunks.
pub(super) struct CompletionChunks {
    id: String,
    model: String,
    created: u64,
    includes_usage: bool,
    /// Whether text was sent. `is_next_paragraph` is true if a tool has run after the text.
    has_text: bool,
    has_thought: bool,
    is_next_paragraph: bool,
    /// The calls of the client's own tools; `None` if the request has no tools of its own.
    calls: Option<CallPieces>,
}

impl CompletionChunks {
    pub(super) fn new(id: &str, model: &str, includes_usage: bool, has_own_tools: bool) -> Self {
        Self {
            id: format!("chatcmpl-{id}"),
            model: model.to_owned(),
            created: response::now(),
            includes_usage,
            has_text: false,
            has_thought: false,
            is_next_paragraph: false,
            calls: has_own_tools.then(CallPieces::default),
        }
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
        if self.includes_usage {
            // If the last chunk has the usage, the other chunks have `null`.
            chunk["usage"] = usage.cloned().unwrap_or(Value::Null);
        }
        data(&chunk)
    }
}

impl Writer for CompletionChunks {
    /// Returns the first chunk, with the role.
    fn begin(&mut self) -> Bytes {
        self.delta(&json!({"role": "assistant", "content": ""}))
    }

    /// Converts text and the pieces of calls that the client must run. The activity of the
    /// sidecar's tools becomes SSE comments, which clients ignore.
    fn convert(&mut self, event: ChatEvent) -> Option<Bytes> {
        match event {
            ChatEvent::Delta(Delta::Text(text)) => {
                let begins = std::mem::take(&mut self.is_next_paragraph);
                self.has_text = true;
                let text = if begins { format!("\n\n{text}") } else { text };
                Some(self.delta(&json!({"content": text})))
            }
            ChatEvent::Delta(Delta::Thought(text)) => {
                self.has_thought = true;
                Some(self.delta(&json!({"reasoning_content": text})))
            }
            ChatEvent::Delta(Delta::ToolCall {
                index,
                id,
                name,
                arguments,
            }) => {
                let calls = self.calls.as_mut()?;
                let piece = calls.piece(index, id, name, &arguments)?;
                Some(self.delta(&json!({"tool_calls": [piece]})))
            }
            ChatEvent::Status(text) => {
                self.is_next_paragraph = self.has_text;
                let line = text.replace(['\r', '\n'], " ");
                Some(Bytes::from(format!(": {line}\n\n")))
            }
            _ => None,
        }
    }

    /// Returns the missing pieces, the finish reason, the usage if requested, and OpenAI's `[DONE]`
    /// line.
    fn end(&mut self, ended: &ChatOutcome) -> Bytes {
        let mut bytes = Vec::new();
        // An answer from the store was not streamed in pieces.
        let text = ended.response.content.as_deref().unwrap_or_default();
        if !self.has_text && !text.is_empty() {
            bytes.extend_from_slice(&self.delta(&json!({"content": text})));
        }
        // If the reasoning was streamed, it was already sent as `reasoning_content`.
        for (name, value) in &ended.provider_members.message {
            if self.has_thought && name == "reasoning_content" {
                continue;
            }
            bytes.extend_from_slice(&self.delta(&json!({ name: value })));
        }
        let missing = |calls: &CallPieces| calls.rest(response::calls(ended));
        for piece in self.calls.iter().flat_map(missing) {
            bytes.extend_from_slice(&self.delta(&json!({"tool_calls": [piece]})));
        }
        let end = json!([{"index": 0, "delta": {}, "finish_reason": response::reason(ended)}]);
        bytes.extend_from_slice(&self.chunk(&end, None));
        if self.includes_usage {
            let cost = response::cost(&ended.response.usage);
            bytes.extend_from_slice(&self.chunk(&json!([]), Some(&cost)));
        }
        bytes.extend_from_slice(b"data: [DONE]\n\n");
        Bytes::from(bytes)
    }

    fn fail(&mut self, error: &Value) -> Bytes {
        data(error)
    }
}

fn data(json: &Value) -> Bytes {
    Bytes::from(format!("data: {json}\n\n"))
}
