mod calls;
mod output;

use pillion_sse::SseEvent;
use serde_json::{Value, json};

use super::{OpenAiResponses, parse_error_object};
use crate::{Delta, ModelError, ProviderApi, ToolFormat, TurnResponse, TurnStream, ending, event};
use calls::PartialCalls;
use output::{StreamedOutput, TextKey};

/// Reads a streamed response. The last event contains the complete response. If that response has
/// no items, as from some compatible servers, the items and texts of the earlier events are used.
#[derive(Default)]
pub(super) struct ResponseStream {
    response: Option<Value>,
    output: StreamedOutput,
    calls: PartialCalls,
}

impl TurnStream for ResponseStream {
    fn push(&mut self, event: &SseEvent, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        let Some(mut data) = event::parse_typed_data(&OpenAiResponses, event)? else {
            return Ok(());
        };
        let output_index = data["output_index"].as_u64();
        let text_key = TextKey {
            output_index,
            is_refusal: false,
        };
        let refusal_key = TextKey {
            is_refusal: true,
            ..text_key
        };
        match data["type"].as_str() {
            Some("response.output_text.delta") => self.add_piece(text_key, &data["delta"], deltas),
            Some("response.refusal.delta") => self.add_piece(refusal_key, &data["delta"], deltas),
            Some("response.output_text.done") => self.add_text(text_key, &data["text"], deltas),
            Some("response.refusal.done") => self.add_text(refusal_key, &data["refusal"], deltas),
            Some("response.reasoning_summary_text.delta" | "response.reasoning_text.delta") => {
                let piece = non_empty_text(&data["delta"]);
                deltas.extend(piece.map(|piece| Delta::Thought(piece.to_owned())));
            }
            Some("response.reasoning_summary_part.added")
                if data["summary_index"].as_u64().unwrap_or(0) > 0 =>
            {
                deltas.push(Delta::Thought("\n\n".to_owned()));
            }
            Some("response.output_item.added") => {
                self.calls.start_call(output_index, &data["item"], deltas);
            }
            Some("response.function_call_arguments.delta") => {
                if let Some(piece) = non_empty_text(&data["delta"]) {
                    let item_id = non_empty_text(&data["item_id"]);
                    self.calls
                        .add_arguments(output_index, item_id, piece, deltas);
                }
            }
            Some("response.output_item.done") => {
                let item = data["item"].take();
                if let Some(position) = self.calls.start_call(output_index, &item, deltas) {
                    self.calls.finish_call(position, &item, deltas);
                }
                if matches!(item["type"].as_str(), Some("mcp_call" | "mcp_list_tools")) {
                    deltas.push(Delta::Native(json!({ "output": [&item] })));
                }
                self.output.add_item(output_index, item);
            }
            Some(
                kind @ ("response.completed"
                | "response.done"
                | "response.incomplete"
                | "response.failed"),
            ) => {
                let status = match kind {
                    "response.done" => "completed".to_owned(),
                    kind => kind.trim_start_matches("response.").to_owned(),
                };
                let mut response = data["response"].take();
                OpenAiResponses.check_error(&response)?;
                put_status(&mut response, status);
                self.response = Some(response);
            }
            Some("error") => {
                let error = OpenAiResponses.error(&data).unwrap_or(&data);
                return Err(parse_error_object(error).into_error(OpenAiResponses.provider()));
            }
            None => OpenAiResponses.check_error(&data)?,
            // Ignores events that repeat complete values, events of the provider's own tools, and
            // unknown events.
            _ => {}
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.response.is_some()
    }

    fn finish(self: Box<Self>) -> Result<TurnResponse, ModelError> {
        let Some(Value::Object(mut response)) = self.response else {
            return Err(OpenAiResponses.malformed("the stream ended early"));
        };
        let output = response.get("output").and_then(Value::as_array);
        if output.is_none_or(Vec::is_empty) {
            let items = self.output.into_items();
            let is_call = |item: &&Value| item["type"] == "function_call";
            let lacks_calls = items.iter().filter(is_call).count() < self.calls.len();
            // Accepts a missing call if the response was cut off, because such a response may lack
            // its last call.
            let is_completed = ending::reason(response.get("status")) == Some("completed");
            if lacks_calls && (is_completed || items.is_empty()) {
                return Err(OpenAiResponses.malformed("the response lacks its streamed output"));
            }
            response.insert("output".to_owned(), Value::Array(items));
        }
        OpenAiResponses.parse_response(Value::Object(response))
    }
}

impl ResponseStream {
    fn add_piece(&mut self, key: TextKey, piece: &Value, deltas: &mut Vec<Delta>) {
        if let Some(piece) = non_empty_text(piece) {
            self.output.add_piece(key, piece);
            deltas.push(Delta::Text(piece.to_owned()));
        }
    }

    fn add_text(&mut self, key: TextKey, text: &Value, deltas: &mut Vec<Delta>) {
        if let Some(text) = non_empty_text(text)
            && self.output.add_text(key, text)
        {
            deltas.push(Delta::Text(text.to_owned()));
        }
    }
}

/// Sets the status of a response from an event, unless the response already has a final status.
fn put_status(response: &mut Value, status: String) {
    let is_final = !matches!(
        ending::reason(response.get("status")),
        None | Some("in_progress" | "queued")
    );
    if let (false, Some(response)) = (is_final, response.as_object_mut()) {
        response.insert("status".to_owned(), Value::String(status));
    }
}

/// Returns the text of a value, if the value is a string that is not empty.
fn non_empty_text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}
