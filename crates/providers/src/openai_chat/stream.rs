mod calls;
mod content;
mod object_scan;

use pillion_schema::{json_values, lone_surrogates};
use pillion_sse::SseEvent;
use serde_json::{Map, Value, json};

use super::{OpenAiChat, check_choice, failure_without_choices, parse_ending};
use crate::ending::StreamedReason;
use crate::{Delta, ModelError, ProviderApi, ToolFormat, TurnResponse, TurnStream};
use calls::StreamedCalls;

/// The members in which servers send the model's thinking.
const THINKING_MEMBERS: [&str; 2] = ["reasoning_content", "reasoning"];

/// Names of events that servers send to keep the connection open.
const KEEP_ALIVE_EVENTS: [&str; 4] = ["ping", "keepalive", "keep-alive", "heartbeat"];

/// The data of events that servers send to keep the connection open.
const KEEP_ALIVE_DATA: [&str; 4] = ["", "ping", "keep-alive", "null"];

/// Assembles the chunks of a chat completion. OpenAI ends a stream with `[DONE]`; a compatible
/// server that omits `[DONE]` must at least send a finish reason.
#[derive(Default)]
pub(super) struct ChunkStream {
    /// The members of the completion except the choices. If several chunks have a member, the value
    /// in the last chunk is used.
    completion: Map<String, Value>,
    message: Map<String, Value>,
    calls: StreamedCalls,
    finish_reason: StreamedReason,
    has_choice: bool,
    is_done: bool,
}

impl TurnStream for ChunkStream {
    fn push(&mut self, event: &SseEvent, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        let data = event.data.trim();
        if data == "[DONE]" {
            self.is_done = true;
            self.calls.report_withheld_arguments(deltas);
            return Ok(());
        }
        if KEEP_ALIVE_EVENTS.contains(&&*event.event) || KEEP_ALIVE_DATA.contains(&data) {
            return Ok(());
        }
        let parse_result = json_values::from_str(&lone_surrogates::replace(data));
        let chunk: Value = match parse_result {
            Ok(chunk) => chunk,
            Err(_) if event.event == "error" => json!({"error": data}),
            Err(_) => return Err(OpenAiChat.malformed("an event is not JSON")),
        };
        OpenAiChat.check_error(&chunk)?;
        if event.event == "error" {
            let failure = OpenAiChat.parse_failure(&chunk);
            return Err(failure.into_error(OpenAiChat.provider()));
        }
        let Value::Object(mut members) = chunk else {
            return Err(OpenAiChat.malformed("an event is not an object"));
        };
        // The ID is read before the calls, whatever the order of the chunk's members, because
        // generated call IDs contain the response's ID.
        if let Some(id) = members.remove("id") {
            self.completion.insert("id".to_owned(), id);
        }
        // The usage is added after the choices, because the usage of the chunk replaces the usage
        // of a choice.
        let usage = members.remove("usage").filter(|usage| !usage.is_null());
        for (key, value) in members {
            match (key.as_str(), value) {
                ("choices", Value::Array(choices)) => {
                    for choice in choices {
                        self.add_choice(choice, deltas)?;
                    }
                }
                ("choices", Value::Null) => {}
                ("choices", _) => return Err(OpenAiChat.malformed("choices is not an array")),
                (_, value) => {
                    self.completion.insert(key, value);
                }
            }
        }
        if let Some(usage) = usage {
            self.completion.insert("usage".to_owned(), usage);
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.is_done
    }

    fn is_complete_if_broken(&self) -> bool {
        self.is_done || self.finish_reason.is_complete_if_broken()
    }

    fn finish(self: Box<Self>) -> Result<TurnResponse, ModelError> {
        if !self.has_choice && (self.is_done || !self.completion.is_empty()) {
            return Err(failure_without_choices(&Value::Object(self.completion)));
        }
        if !self.is_done && !self.finish_reason.has_ended() {
            return Err(OpenAiChat.malformed(&self.finish_reason.format_early_end_message()));
        }
        let mut message = self.message;
        message.entry("role").or_insert(json!("assistant"));
        message.entry("content").or_insert(Value::Null);
        let calls = self.calls.into_values();
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        let mut body = self.completion;
        body.insert("object".to_owned(), json!("chat.completion"));
        let choice = json!({
            "index": 0,
            "message": message,
            "finish_reason": self.finish_reason.reason(),
        });
        body.insert("choices".to_owned(), json!([choice]));
        OpenAiChat.parse_response(Value::Object(body))
    }
}

impl ChunkStream {
    fn add_choice(&mut self, choice: Value, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        let Value::Object(mut choice) = choice else {
            return Err(OpenAiChat.malformed("a choice is not an object"));
        };
        // Ignores all choices except the first.
        if choice.get("index").and_then(Value::as_u64).unwrap_or(0) != 0 {
            return Ok(());
        }
        check_choice(&mut choice)?;
        self.has_choice = true;
        let delta_count = deltas.len();
        // Also reads `message`, because a compatible server that does not stream puts the whole
        // message into one chunk.
        let delta = choice.remove("delta").or_else(|| choice.remove("message"));
        match delta {
            Some(Value::Object(delta)) => self.add_delta(delta, deltas)?,
            None | Some(Value::Null) => {}
            Some(_) => return Err(OpenAiChat.malformed("a delta is not an object")),
        }
        if deltas.len() > delta_count {
            self.finish_reason.add_content();
        }
        self.finish_reason
            .add(parse_ending, choice.get("finish_reason"));
        if self.finish_reason.has_ended() {
            self.calls.report_withheld_arguments(deltas);
        }
        // Moves the usage to the completion, because Moonshot sends it in the choice.
        if let Some(usage) = choice.remove("usage").filter(Value::is_object) {
            self.completion.insert("usage".to_owned(), usage);
        }
        Ok(())
    }

    fn add_delta(
        &mut self,
        delta: Map<String, Value>,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), ModelError> {
        let mut has_thought = false;
        for (key, value) in delta {
            match (key.as_str(), value) {
                (_, Value::Null) => {}
                ("tool_calls", Value::Array(pieces)) => {
                    for piece in pieces {
                        self.calls.add(piece, self.completion.get("id"), deltas)?;
                    }
                }
                ("tool_calls", _) => return Err(OpenAiChat.malformed("tool_calls is not an array")),
                ("role", role) => {
                    self.message.insert(key, role);
                }
                ("content", value) => {
                    let content = self.message.entry(key).or_insert(Value::Null);
                    content::add(content, value, deltas)?;
                }
                (name, value) => {
                    if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
                        if name == "refusal" {
                            deltas.push(Delta::Text(text.to_owned()));
                        } else if THINKING_MEMBERS.contains(&name) && !has_thought {
                            // Emits only the first member with thinking, because some servers send
                            // the same thinking in both members.
                            has_thought = true;
                            deltas.push(Delta::Thought(text.to_owned()));
                        }
                    }
                    merge_member(self.message.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        Ok(())
    }
}

/// Merges a member of a delta into the message. Text and lists are appended; other values are
/// replaced.
fn merge_member(existing: &mut Value, addition: Value) {
    match (existing, addition) {
        (Value::String(existing), Value::String(addition)) => existing.push_str(&addition),
        (Value::Array(existing), Value::Array(addition)) => existing.extend(addition),
        (existing, addition) => *existing = addition,
    }
}
