//! Chat completion streams in OpenAI's format.

use axum::body::Bytes;
use pillion_chat::{ChatEvent, Delta};
use serde_json::{Value, json};

use super::calls::CallPieces;
use super::response;
use crate::routes::compatible::Writer;
use pillion_management::chat::ChatOutcome;

/// Converts chat events to chunks.
pub(super) struct CompletionChunks {
    id: String,
    model: String,
    created: u64,
    has_usage_chunk: bool,
    /// Whether text was sent.
    has_text: bool,
    has_streamed_reasoning: bool,
    /// Whether the next text begins a new paragraph, because a tool has run since the last text.
    must_begin_paragraph: bool,
    /// The calls of the tools that the request defines; `None` if the request defines no tools.
    calls: Option<CallPieces>,
}

impl CompletionChunks {
    pub(super) fn new(
        id: &str,
        model: &str,
        has_usage_chunk: bool,
        has_client_tools: bool,
    ) -> Self {
        Self {
            id: format!("chatcmpl-{id}"),
            model: model.to_owned(),
            created: response::now_seconds(),
            has_usage_chunk,
            has_text: false,
            has_streamed_reasoning: false,
            must_begin_paragraph: false,
            calls: has_client_tools.then(CallPieces::default),
        }
    }

    fn format_delta(&self, delta: &Value) -> Bytes {
        self.format_chunk(
            &json!([{"index": 0, "delta": delta, "finish_reason": null}]),
            None,
        )
    }

    fn format_chunk(&self, choices: &Value, usage: Option<&Value>) -> Bytes {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        });
        if self.has_usage_chunk {
            // If the client requests the usage, only the last chunk has it; all other chunks have
            // `null`.
            chunk["usage"] = usage.cloned().unwrap_or(Value::Null);
        }
        format_data_event(&chunk)
    }
}

impl Writer for CompletionChunks {
    /// Returns the first chunk, with the role.
    fn begin(&mut self) -> Bytes {
        self.format_delta(&json!({"role": "assistant", "content": ""}))
    }

    /// Converts text and the pieces of calls that the client must run. The activity of the
    /// sidecar's tools becomes SSE comments, which clients ignore.
    fn convert(&mut self, event: ChatEvent) -> Option<Bytes> {
        match event {
            ChatEvent::Delta(Delta::Text(text)) => {
                let is_paragraph_start = std::mem::take(&mut self.must_begin_paragraph);
                self.has_text = true;
                let chunk_text = if is_paragraph_start {
                    format!("\n\n{text}")
                } else {
                    text
                };
                Some(self.format_delta(&json!({"content": chunk_text})))
            }
            ChatEvent::Delta(Delta::Thought(text)) => {
                self.has_streamed_reasoning = true;
                Some(self.format_delta(&json!({"reasoning_content": text})))
            }
            ChatEvent::Delta(Delta::ToolCall {
                index,
                id,
                name,
                arguments,
            }) => {
                let calls = self.calls.as_mut()?;
                let piece = calls.next_piece(index, id, name, &arguments)?;
                Some(self.format_delta(&json!({"tool_calls": [piece]})))
            }
            ChatEvent::Status(text) => {
                self.must_begin_paragraph = self.has_text;
                let line = text.replace(['\r', '\n'], " ");
                Some(Bytes::from(format!(": {line}\n\n")))
            }
            _ => None,
        }
    }

    /// Returns the missing pieces, the finish reason, the usage if requested, and OpenAI's `[DONE]`
    /// line.
    fn end(&mut self, outcome: &ChatOutcome) -> Bytes {
        let mut bytes = Vec::new();
        // Sends the whole response if none of its text was streamed, as for a response from the
        // store.
        let text = outcome.response.content.as_deref().unwrap_or_default();
        if !self.has_text && !text.is_empty() {
            bytes.extend_from_slice(&self.format_delta(&json!({"content": text})));
        }
        // If the reasoning was streamed, it was already sent as `reasoning_content`.
        for (name, value) in &outcome.provider_members.message {
            if self.has_streamed_reasoning && name == "reasoning_content" {
                continue;
            }
            bytes.extend_from_slice(&self.format_delta(&json!({ name: value })));
        }
        let remaining_pieces =
            |calls: &CallPieces| calls.remaining_pieces(response::format_calls(outcome));
        for piece in self.calls.iter().flat_map(remaining_pieces) {
            bytes.extend_from_slice(&self.format_delta(&json!({"tool_calls": [piece]})));
        }
        let final_choices =
            json!([{"index": 0, "delta": {}, "finish_reason": response::finish_reason(outcome)}]);
        bytes.extend_from_slice(&self.format_chunk(&final_choices, None));
        if self.has_usage_chunk {
            let usage = response::usage_json(&outcome.response.usage);
            bytes.extend_from_slice(&self.format_chunk(&json!([]), Some(&usage)));
        }
        bytes.extend_from_slice(b"data: [DONE]\n\n");
        Bytes::from(bytes)
    }

    fn fail(&mut self, error: &Value) -> Bytes {
        format_data_event(error)
    }
}

fn format_data_event(json: &Value) -> Bytes {
    Bytes::from(format!("data: {json}\n\n"))
}
