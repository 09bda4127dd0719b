use std::collections::HashMap;

use pillion_schema::json_values;
use pillion_sse::SseEvent;
use serde_json::{Map, Value, json};

use super::{Anthropic, parse_ending};
use crate::ending::{self, StreamedReason};
use crate::turn::arguments_delta;
use crate::{Delta, Finish, ModelError, ProviderApi, TurnResponse, TurnStream, event};

/// Assembles a streamed message from its events: `message_start`, the blocks in order,
/// `message_delta` and `message_stop`. A compatible server that omits `message_stop` must at least
/// end all blocks and send a stop reason. Unknown events and deltas are ignored, as Anthropic's
/// documentation requires. Blocks of an unknown type stay as their start event defines them.
#[derive(Default)]
pub(super) struct MessageStream {
    message: Option<Map<String, Value>>,
    blocks: Vec<ContentBlock>,
    /// The positions of the newest blocks, by the `index` of their events. Servers skip indices,
    /// and some use the index of an ended block again.
    positions_by_index: HashMap<u64, usize>,
    call_count: usize,
    stop_reason: StreamedReason,
    /// Whether a `message_delta` event had a stop reason.
    has_final_reason: bool,
    is_complete: bool,
}

/// A content block of a streamed message.
#[derive(Clone)]
struct ContentBlock {
    value: Value,
    /// The received pieces of the call's `input`, joined.
    input: String,
    /// The index of the call among the response's calls, if the block is a call that Pillion runs.
    call_index: Option<usize>,
    is_closed: bool,
}

impl TurnStream for MessageStream {
    fn push(&mut self, event: &SseEvent, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        let Some(mut data) = event::parse_typed_data(&Anthropic, event)? else {
            return Ok(());
        };
        match data.get("type").and_then(Value::as_str) {
            Some("message_start") => self.start_message(data["message"].take(), deltas),
            Some("content_block_start") => self.start_block(&mut data, deltas),
            Some("content_block_delta") => self.add_delta(&data, deltas),
            Some("content_block_stop") => {
                if let Some(position) = self.find_block(&data) {
                    self.close_block(position, deltas);
                }
                Ok(())
            }
            Some("message_delta") => self.apply_message_delta(data),
            Some("message_stop") => {
                self.message_mut()?;
                self.is_complete = true;
                Ok(())
            }
            // Returns the error that an `error` event reports. Ignores `ping` and unknown events.
            _ => Anthropic.check_error(&data),
        }
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }

    fn is_complete_if_broken(&self) -> bool {
        self.is_complete || (self.has_ended() && self.stop_reason.is_complete_if_broken())
    }

    fn finish(self: Box<Self>) -> Result<TurnResponse, ModelError> {
        let has_ended = self.is_complete || self.has_ended();
        let Some(mut message) = self.message.filter(|_| has_ended) else {
            return Err(Anthropic.malformed(&self.stop_reason.format_early_end_message()));
        };
        if let Some(reason) = self.stop_reason.reason() {
            message.insert("stop_reason".to_owned(), json!(reason));
        }
        let lacks_arguments = self.blocks.iter().any(ContentBlock::lacks_arguments);
        let content = self
            .blocks
            .into_iter()
            .map(ContentBlock::into_value)
            .collect();
        message.insert("content".to_owned(), Value::Array(content));
        let mut response = Anthropic.parse_response(Value::Object(message))?;
        if lacks_arguments && response.finish == Finish::ToolCalls {
            response.finish = Finish::Length;
        }
        Ok(response)
    }
}

impl MessageStream {
    /// Returns whether all content of the response has arrived, even if `message_stop` has not
    /// arrived.
    fn has_ended(&self) -> bool {
        self.has_final_reason
            && self.stop_reason.has_ended()
            && self.blocks.iter().all(|block| block.is_closed)
    }

    /// Starts the message. The content of the start event is usually empty; if the response
    /// continues after a call of Anthropic's code execution, the start event has the whole content.
    /// Some gateways send the start event twice.
    fn start_message(&mut self, message: Value, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        match message {
            Value::Object(mut message) if self.blocks.is_empty() => {
                let content = message.get_mut("content").map(Value::take);
                self.stop_reason
                    .add(parse_ending, message.get("stop_reason"));
                self.message = Some(message);
                if let Some(Value::Array(blocks)) = content {
                    for block in blocks {
                        self.open_block(block, deltas)?;
                        self.close_block(self.blocks.len() - 1, deltas);
                    }
                }
                Ok(())
            }
            _ => Err(Anthropic.malformed("message_start has no message or follows a block")),
        }
    }

    fn start_block(&mut self, data: &mut Value, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        self.message_mut()?;
        self.stop_reason.add_content();
        if let Some(index) = data["index"].as_u64() {
            self.positions_by_index.insert(index, self.blocks.len());
        }
        self.open_block(data["content_block"].take(), deltas)
    }

    fn open_block(&mut self, value: Value, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        if !value.is_object() {
            return Err(Anthropic.malformed("a content block is not an object"));
        }
        let read_text = |key: &str| value.get(key).and_then(Value::as_str);
        let call_index = (read_text("type") == Some("tool_use")).then_some(self.call_count);
        match read_text("type") {
            Some("tool_use") => {
                self.call_count += 1;
                deltas.push(Delta::ToolCall {
                    index: self.call_count - 1,
                    id: read_text("id").map(str::to_owned),
                    name: read_text("name").map(str::to_owned),
                    arguments: String::new(),
                });
            }
            Some("text") => push_delta(read_text("text"), Delta::Text, deltas),
            Some("thinking") => push_delta(read_text("thinking"), Delta::Thought, deltas),
            _ => {}
        }
        self.blocks.push(ContentBlock {
            value,
            input: String::new(),
            call_index,
            is_closed: false,
        });
        Ok(())
    }

    fn add_delta(&mut self, data: &Value, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        let position = self.find_block(data).ok_or_else(|| {
            Anthropic.malformed("an event refers to a content block that has not started")
        })?;
        self.stop_reason.add_content();
        let block = &mut self.blocks[position];
        if block.is_closed {
            return Err(Anthropic.malformed("a content_block_delta follows the end of its block"));
        }
        let delta = &data["delta"];
        let read_piece = |key: &str| match delta.get(key) {
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(Value::Null) => Ok(""),
            _ => Err(Anthropic.malformed("a content_block_delta has no text")),
        };
        match delta["type"].as_str() {
            Some("text_delta") => {
                let text = read_piece("text")?;
                append(&mut block.value, "text", text)?;
                push_delta(Some(text), Delta::Text, deltas);
            }
            Some("thinking_delta") => {
                let text = read_piece("thinking")?;
                append(&mut block.value, "thinking", text)?;
                push_delta(Some(text), Delta::Thought, deltas);
            }
            Some("signature_delta") if delta["signature"].is_null() => {}
            Some("signature_delta") => block.value["signature"] = delta["signature"].clone(),
            Some("input_json_delta") => {
                let json_piece = read_piece("partial_json")?;
                block.input.push_str(json_piece);
                if let Some(index) = block.call_index
                    && !json_piece.is_empty()
                {
                    deltas.push(arguments_delta(index, json_piece));
                }
            }
            Some("citations_delta") => {
                let citation = delta["citation"].clone();
                match &mut block.value["citations"] {
                    Value::Array(citations) => citations.push(citation),
                    absent_list => *absent_list = Value::Array(vec![citation]),
                }
            }
            Some("compaction_delta") => {
                if let Some(text) = delta["content"].as_str() {
                    append(&mut block.value, "content", text)?;
                }
                if let Some(encrypted_content) = delta.get("encrypted_content") {
                    block.value["encrypted_content"] = encrypted_content.clone();
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends a block. Emits the arguments of a call for which no piece of arguments arrived, because
    /// the call has no arguments or its start event contains all of them. The result of an MCP call
    /// that Anthropic made is emitted together with the call.
    fn close_block(&mut self, position: usize, deltas: &mut Vec<Delta>) {
        let Some(block) = self.blocks.get_mut(position) else {
            return;
        };
        if std::mem::replace(&mut block.is_closed, true) {
            return;
        }
        let block = &self.blocks[position];
        if block.value["type"] == "mcp_tool_result" {
            let id = &block.value["tool_use_id"];
            let is_call = |value: &Value| value["type"] == "mcp_tool_use" && value["id"] == *id;
            if let Some(call) = self.blocks.iter().find(|call| is_call(&call.value)) {
                let content = [call, block].map(|block| block.clone().into_value());
                deltas.push(Delta::Native(json!({ "content": content })));
            }
        }
        if let Some(index) = block.call_index
            && block.input.is_empty()
        {
            let input = block.value.get("input").filter(|input| !input.is_null());
            let json_piece = input.map_or_else(|| "{}".to_owned(), Value::to_string);
            deltas.push(arguments_delta(index, json_piece));
        }
    }

    /// Applies the members of `message_delta` to the message. The token counts are totals for the
    /// whole message.
    fn apply_message_delta(&mut self, data: Value) -> Result<(), ModelError> {
        self.message_mut()?;
        let reason = data["delta"].get("stop_reason");
        self.has_final_reason |= ending::reason(reason).is_some();
        self.stop_reason.add(parse_ending, reason);
        let message = self.message_mut()?;
        let Value::Object(members) = data else {
            return Ok(());
        };
        for (key, value) in members {
            match (key.as_str(), value) {
                ("type", _) | (_, Value::Null) => {}
                ("delta", Value::Object(delta)) => {
                    let delta = delta.into_iter().filter(|(_, value)| !value.is_null());
                    message.extend(delta);
                }
                ("usage", Value::Object(counts)) => {
                    let counts = counts.into_iter().filter(|(_, count)| !count.is_null());
                    match message.get_mut("usage") {
                        Some(Value::Object(usage)) => usage.extend(counts),
                        _ => {
                            message.insert(key, counts.collect());
                        }
                    }
                }
                (_, value) => {
                    message.insert(key, value);
                }
            }
        }
        Ok(())
    }

    fn message_mut(&mut self) -> Result<&mut Map<String, Value>, ModelError> {
        self.message
            .as_mut()
            .ok_or_else(|| Anthropic.malformed("the stream does not begin with message_start"))
    }

    /// Returns the position of the block that an event refers to: the newest block with the event's
    /// index, or the newest block if the event has no index.
    fn find_block(&self, data: &Value) -> Option<usize> {
        match data["index"].as_u64() {
            Some(index) => self.positions_by_index.get(&index).copied(),
            None => self.blocks.len().checked_sub(1),
        }
    }
}

impl ContentBlock {
    /// Returns whether the block is a call that was cut off before its arguments.
    fn lacks_arguments(&self) -> bool {
        let lacks_input = self.value["input"].as_object().is_none_or(Map::is_empty);
        self.call_index.is_some() && !self.is_closed && self.input.is_empty() && lacks_input
    }

    /// Returns the block in the form of an unstreamed message. An `input` that is invalid JSON
    /// because the response was cut off stays a string, and the call then fails.
    fn into_value(mut self) -> Value {
        if !self.input.is_empty() {
            self.value["input"] =
                json_values::from_str(&self.input).unwrap_or(Value::String(self.input));
        }
        self.value
    }
}

fn append(block: &mut Value, key: &str, piece: &str) -> Result<(), ModelError> {
    match &mut block[key] {
        Value::String(text) => text.push_str(piece),
        absent_text @ Value::Null => *absent_text = Value::String(piece.to_owned()),
        _ => {
            let problem = "a content_block_delta does not match the type of its block";
            return Err(Anthropic.malformed(problem));
        }
    }
    Ok(())
}

fn push_delta(text: Option<&str>, delta: fn(String) -> Delta, deltas: &mut Vec<Delta>) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        deltas.push(delta(text.to_owned()));
    }
}
