use pillion_sse::SseEvent;
use serde_json::{Map, Value, json};

use super::format::find_or_generate_id;
use super::{Google, find_block_reason, parse_ending, read_response};
use crate::ending::StreamedReason;
use crate::{Delta, ModelError, ProviderApi, TurnResponse, TurnStream, event};

/// Assembles a streamed response. Each event is a response with some of the parts. If several
/// events have any other member, the value in the last event is used.
#[derive(Default)]
pub(super) struct ContentStream {
    /// The response without its candidates.
    response: Map<String, Value>,
    /// The first candidate without its parts, once an event has had a candidate.
    candidate: Option<Map<String, Value>>,
    /// The content of the first candidate without its parts.
    content: Map<String, Value>,
    parts: Vec<Value>,
    call_count: usize,
    finish_reason: StreamedReason,
}

impl TurnStream for ContentStream {
    fn push(&mut self, event: &SseEvent, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        match event::parse_data(&Google, event)? {
            None => Ok(()),
            Some(Value::Array(responses)) => responses
                .into_iter()
                .try_for_each(|response| self.add_response(response, deltas)),
            Some(response) => self.add_response(response, deltas),
        }
    }

    /// Always `false`, because the API has no event for the end of a response. The connection
    /// closes after the finish reason, but some models send the reason in every chunk.
    fn is_complete(&self) -> bool {
        false
    }

    fn is_complete_if_broken(&self) -> bool {
        self.is_blocked() || self.finish_reason.is_complete_if_broken()
    }

    fn finish(self: Box<Self>) -> Result<TurnResponse, ModelError> {
        if !self.is_blocked() && !self.finish_reason.has_ended() {
            return Err(Google.malformed(&self.finish_reason.format_early_end_message()));
        }
        let mut body = Map::new();
        if let Some(mut candidate_members) = self.candidate {
            if let Some(reason) = self.finish_reason.reason() {
                candidate_members.insert("finishReason".to_owned(), json!(reason));
            }
            let mut content = Map::new();
            if !self.parts.is_empty() {
                content.insert("parts".to_owned(), Value::Array(self.parts));
            }
            content.extend(self.content);
            let mut candidate = Map::new();
            if !content.is_empty() {
                candidate.insert("content".to_owned(), Value::Object(content));
            }
            candidate.extend(candidate_members);
            body.insert("candidates".to_owned(), json!([candidate]));
        }
        body.extend(self.response);
        read_response(Value::Object(body))
    }
}

impl ContentStream {
    /// Adds a chunk, which is a response with some of the parts.
    fn add_response(&mut self, response: Value, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        Google.check_error(&response)?;
        let Value::Object(mut response_members) = response else {
            return Err(Google.malformed("an event of the stream is not an object"));
        };
        // Ignores a response ID that arrives after a call, because the generated IDs of calls
        // contain the response ID.
        let response_id = response_members.shift_remove("responseId");
        if let Some(id) = response_id.filter(|id| id.is_string() && self.call_count == 0) {
            self.response.insert("responseId".to_owned(), id);
        }
        for (key, value) in response_members {
            match (key.as_str(), value) {
                (_, Value::Null) => {}
                ("candidates", Value::Array(candidates)) => {
                    // Ignores all candidates except the first.
                    let is_first =
                        |candidate: &Value| candidate["index"].as_u64().unwrap_or(0) == 0;
                    if let Some(candidate) = candidates.into_iter().find(is_first) {
                        self.add_candidate(candidate, deltas)?;
                    }
                }
                ("candidates", _) => return Err(Google.malformed("candidates is not an array")),
                (_, value) => {
                    self.response.insert(key, value);
                }
            }
        }
        Ok(())
    }

    /// Returns whether the prompt was blocked.
    fn is_blocked(&self) -> bool {
        find_block_reason(self.response.get("promptFeedback")).is_some()
    }

    fn add_candidate(&mut self, value: Value, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        let Value::Object(members) = value else {
            return Err(Google.malformed("candidates[0] is not an object"));
        };
        let mut candidate_members = self.candidate.take().unwrap_or_default();
        let delta_count = deltas.len();
        let finish_reason = members.get("finishReason").cloned();
        for (key, value) in members {
            match (key.as_str(), value) {
                ("finishReason", _) | (_, Value::Null) => {}
                ("content", Value::Object(content)) => self.add_content(content, deltas)?,
                ("content", _) => {
                    return Err(Google.malformed("candidates[0].content is not an object"));
                }
                (_, value) => {
                    candidate_members.insert(key, value);
                }
            }
        }
        self.candidate = Some(candidate_members);
        if deltas.len() > delta_count {
            self.finish_reason.add_content();
        }
        self.finish_reason.add(parse_ending, finish_reason.as_ref());
        Ok(())
    }

    fn add_content(
        &mut self,
        content: Map<String, Value>,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), ModelError> {
        for (key, value) in content {
            match (key.as_str(), value) {
                (_, Value::Null) => {}
                ("parts", Value::Array(parts)) => {
                    for part in parts {
                        self.add_part(part, deltas)?;
                    }
                }
                ("parts", _) => {
                    return Err(Google.malformed("candidates[0].content.parts is not an array"));
                }
                (_, value) => {
                    self.content.insert(key, value);
                }
            }
        }
        Ok(())
    }

    fn add_part(&mut self, part: Value, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        if let Some(call) = part.get("functionCall") {
            // Rejects a partial call, because the remaining arguments would arrive in events of a
            // format that Google sends only on request.
            if call["willContinue"] == json!(true) || call.get("partialArgs").is_some() {
                return Err(Google.malformed(
                    "the stream has partial function call arguments \
                    (streamFunctionCallArguments), which were not requested",
                ));
            }
            deltas.push(self.call_delta(call));
            self.call_count += 1;
        } else if let Some(text) = part["text"].as_str().filter(|text| !text.is_empty()) {
            let text = text.to_owned();
            deltas.push(if part["thought"] == json!(true) {
                Delta::Thought(text)
            } else {
                Delta::Text(text)
            });
        }
        if !self.append_text(&part) {
            self.parts.push(part);
        }
        Ok(())
    }

    /// Returns the delta for a complete call.
    fn call_delta(&self, call: &Value) -> Delta {
        let response_id = self.response.get("responseId").and_then(Value::as_str);
        let id = call["id"].as_str().unwrap_or_default();
        let args = call.get("args").filter(|args| !args.is_null());
        Delta::ToolCall {
            index: self.call_count,
            id: Some(find_or_generate_id(id, response_id, self.call_count)),
            name: call["name"].as_str().map(str::to_owned),
            arguments: args.map_or_else(|| "{}".to_owned(), Value::to_string),
        }
    }

    /// Appends plain text to the previous part, as in an unstreamed response. Parts with signatures
    /// stay separate, because Google's documentation forbids merging such parts. Returns whether
    /// the text was appended.
    fn append_text(&mut self, part: &Value) -> bool {
        let Some(text) = find_plain_text(part) else {
            return false;
        };
        match self.parts.last_mut() {
            Some(last) if find_plain_text(last).is_some() && last["thought"] == part["thought"] => {
                if let Value::String(previous_text) = &mut last["text"] {
                    previous_text.push_str(text);
                }
                true
            }
            // Drops the empty text that the last chunk has next to the finish reason.
            _ => text.is_empty(),
        }
    }
}

/// Reads a stream that was sent as a JSON array of its responses.
pub(super) fn read_responses(responses: Vec<Value>) -> Result<TurnResponse, ModelError> {
    let mut stream = Box::<ContentStream>::default();
    for response in responses {
        stream.add_response(response, &mut Vec::new())?;
    }
    stream.finish()
}

/// Returns the text of a part with no members except `text` and `thought`.
fn find_plain_text(part: &Value) -> Option<&str> {
    let members = part.as_object()?;
    let is_plain = members.keys().all(|key| key == "text" || key == "thought");
    members.get("text")?.as_str().filter(|_| is_plain)
}
