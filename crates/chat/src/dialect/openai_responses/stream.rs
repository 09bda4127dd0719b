use std::collections::BTreeMap;

use pillion_core::provider::Provider;
use pillion_sse::SseEvent;
use serde_json::{Value, json};

use super::super::ending;
use super::super::failure::malformed;
use super::super::{AnswerStream, event};
use super::{failure_of, is_error, parse_failure, read_answer};
use crate::{Delta, ModelError, TurnAnswer};

/// Reads a streamed response. The last event contains the complete response. If that response has
/// no items, as from some compatible servers, the items of the earlier events are used.
#[derive(Default)]
pub(super) struct ResponseStream {
    response: Option<Value>,
    /// The completed items, by their position in the output.
    items: BTreeMap<u64, Value>,
    /// The calls that have begun, by their position in the output.
    calls: BTreeMap<u64, PartialCall>,
    has_text: bool,
}

struct PartialCall {
    index: usize,
    /// The number of bytes of the arguments that were emitted.
    streamed_bytes: usize,
}

impl AnswerStream for ResponseStream {
    fn push(&mut self, event: &SseEvent, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        let Some(mut data) = event::typed_data(Provider::OpenAiResponses, event)? else {
            return Ok(());
        };
        let output_index = data["output_index"].as_u64().unwrap_or(0);
        match data["type"].as_str() {
            Some("response.output_text.delta" | "response.refusal.delta") => {
                self.has_text |= push_delta(&data, Delta::Text, deltas);
            }
            Some("response.reasoning_summary_text.delta" | "response.reasoning_text.delta") => {
                push_delta(&data, Delta::Thought, deltas);
            }
            Some("response.reasoning_summary_part.added")
                if data["summary_index"].as_u64().unwrap_or(0) > 0 =>
            {
                deltas.push(Delta::Thought("\n\n".to_owned()));
            }
            Some("response.output_item.added") => self.begin(output_index, &data["item"], deltas),
            Some("response.function_call_arguments.delta") => {
                self.add_arguments(output_index, &data["delta"], deltas);
            }
            Some("response.output_item.done") => {
                let item = data["item"].take();
                self.begin(output_index, &item, deltas);
                self.end(output_index, &item, deltas);
                if matches!(item["type"].as_str(), Some("mcp_call" | "mcp_list_tools")) {
                    deltas.push(Delta::Native(json!({ "output": [&item] })));
                }
                self.items.insert(output_index, item);
            }
            Some(kind @ ("response.completed" | "response.incomplete" | "response.failed")) => {
                let status = kind.trim_start_matches("response.").to_owned();
                let mut response = data["response"].take();
                if is_error(&response) {
                    return Err(parse_failure(&response).into_error(Provider::OpenAiResponses));
                }
                put_status(&mut response, status);
                self.response = Some(response);
            }
            Some("error") => {
                let error = if is_error(&data) {
                    &data["error"]
                } else {
                    &data
                };
                return Err(failure_of(error).into_error(Provider::OpenAiResponses));
            }
            None if is_error(&data) => {
                return Err(parse_failure(&data).into_error(Provider::OpenAiResponses));
            }
            // Events that repeat complete values, events of the provider's own tools, and unknown
            // events.
            _ => {}
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.response.is_some()
    }

    fn finish(self: Box<Self>) -> Result<TurnAnswer, ModelError> {
        let Some(Value::Object(mut response)) = self.response else {
            return Err(malformed_error("the stream ended early"));
        };
        let has_output = response
            .get("output")
            .and_then(Value::as_array)
            .is_some_and(|output| !output.is_empty());
        if !has_output {
            let items: Vec<_> = self.items.into_values().collect();
            let items_are_missing = items.is_empty() && (self.has_text || !self.calls.is_empty());
            response.insert("output".to_owned(), json!(items));
            if items_are_missing {
                return Err(malformed_error("the response lacks its streamed output"));
            }
        }
        read_answer(Value::Object(response))
    }
}

impl ResponseStream {
    /// Begins a call, unless the call has begun or the item is not a call.
    fn begin(&mut self, output_index: u64, item: &Value, deltas: &mut Vec<Delta>) {
        if item["type"] != "function_call" || self.calls.contains_key(&output_index) {
            return;
        }
        let text = |key: &str| item[key].as_str().map(str::to_owned);
        let arguments = text("arguments").unwrap_or_default();
        let call = PartialCall {
            index: self.calls.len(),
            streamed_bytes: arguments.len(),
        };
        deltas.push(Delta::ToolCall {
            index: call.index,
            id: text("call_id"),
            name: text("name"),
            arguments,
        });
        self.calls.insert(output_index, call);
    }

    fn add_arguments(&mut self, output_index: u64, piece: &Value, deltas: &mut Vec<Delta>) {
        if let Some(call) = self.calls.get_mut(&output_index)
            && let Some(piece) = piece.as_str().filter(|piece| !piece.is_empty())
        {
            call.streamed_bytes += piece.len();
            deltas.push(more_arguments(call.index, piece));
        }
    }

    /// Emits arguments that no piece contained: some servers send arguments only with the complete
    /// item.
    fn end(&mut self, output_index: u64, item: &Value, deltas: &mut Vec<Delta>) {
        if let Some(call) = self.calls.get_mut(&output_index)
            && call.streamed_bytes == 0
        {
            let arguments = item["arguments"].as_str().filter(|all| !all.is_empty());
            deltas.push(more_arguments(call.index, arguments.unwrap_or("{}")));
            call.streamed_bytes = 1;
        }
    }
}

/// Sets the status of a response that its event says, unless the response has a final status.
fn put_status(response: &mut Value, status: String) {
    let is_final = !matches!(
        ending::reason(response.get("status")),
        None | Some("in_progress" | "queued")
    );
    if let (false, Some(response)) = (is_final, response.as_object_mut()) {
        response.insert("status".to_owned(), Value::String(status));
    }
}

/// Returns whether the event has text.
fn push_delta(data: &Value, delta: fn(String) -> Delta, deltas: &mut Vec<Delta>) -> bool {
    let text = data["delta"].as_str().filter(|text| !text.is_empty());
    deltas.extend(text.map(|text| delta(text.to_owned())));
    text.is_some()
}

fn more_arguments(index: usize, arguments: &str) -> Delta {
    Delta::ToolCall {
        index,
        id: None,
        name: None,
        arguments: arguments.to_owned(),
    }
}

fn malformed_error(what: &str) -> ModelError {
    malformed(Provider::OpenAiResponses, what)
}
