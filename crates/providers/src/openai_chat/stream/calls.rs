use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::object_scan::ObjectScan;
use crate::openai_chat::{OpenAiChat, generate_call_id};
use crate::turn::arguments_delta;
use crate::{Delta, ModelError, ProviderApi};

/// Values that servers send as arguments before the real arguments.
const PLACEHOLDERS: [&str; 2] = ["{}", "null"];

/// Maximum length of arguments that may be a placeholder surrounded by white space, in bytes.
const MAX_PLACEHOLDER_BYTES: usize = 16;

/// The calls of a response, assembled from their pieces. OpenAI's pieces name their call by
/// `index`, but some compatible servers omit the index or always send 0. Pieces are therefore
/// assigned as follows:
///
/// - A piece with an index continues the call with this index. The piece starts a new call if it
///   has a name and another ID, or if it has a name, no ID and the call is complete
///   ([`StreamedCall::is_followed_by`]).
/// - A piece with an ID and no index continues the call with this ID, or starts a new call.
/// - Of the pieces with neither, a piece with a name starts a new call, and any other piece
///   continues the last call.
///
/// A call without an ID gets a generated ID at once, so that listeners can identify the call.
#[derive(Default)]
pub(super) struct StreamedCalls {
    calls: Vec<StreamedCall>,
    positions_by_index: HashMap<u64, usize>,
    positions_by_id: HashMap<String, usize>,
    /// Whether any call may have arguments that listeners have not received yet.
    has_withheld_arguments: bool,
}

/// A call of a streamed response.
#[derive(Default)]
struct StreamedCall {
    index: Option<u64>,
    id: String,
    /// Whether Pillion generated the ID.
    has_generated_id: bool,
    name: String,
    arguments: String,
    scan: ObjectScan,
    /// The length of the beginning of the arguments that listeners have already received, in bytes.
    reported_len: usize,
    /// Other members of the call, which some providers want to receive back.
    other_members: Map<String, Value>,
}

/// A piece of a call in a chunk of a streamed response.
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    name: Option<String>,
    arguments: String,
    other_members: Map<String, Value>,
}

impl StreamedCalls {
    /// Adds a piece of a call. `response_id` is the ID of the response.
    pub(super) fn add(
        &mut self,
        piece: Value,
        response_id: Option<&Value>,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), ModelError> {
        let call_delta = CallDelta::parse(piece)?;
        let position = self.find_or_add(&call_delta);
        let call = &mut self.calls[position];
        if call.is_repeated_by(&call_delta.arguments) {
            call.other_members.extend(call_delta.other_members);
            return Ok(());
        }
        let id = call.id.is_empty().then(|| {
            call.has_generated_id = call_delta.id.is_none();
            let generate_id = || generate_call_id(response_id.and_then(Value::as_str), position);
            call.id = call_delta.id.clone().unwrap_or_else(generate_id);
            self.positions_by_id.insert(call.id.clone(), position);
            call.id.clone()
        });
        // Ignores a repeated name, because some servers send the name in each piece.
        let name = call_delta.name.filter(|name| call.name != *name);
        call.name.push_str(name.as_deref().unwrap_or_default());
        call.add_arguments(&call_delta.arguments);
        call.other_members.extend(call_delta.other_members);
        // A reported delta cannot be retracted, so arguments that may be only the provider's
        // placeholder are not reported yet.
        let is_withheld = call.is_placeholder();
        self.has_withheld_arguments |= is_withheld;
        let arguments = if is_withheld {
            String::new()
        } else {
            call.take_unreported_arguments()
        };
        if !is_withheld || id.is_some() || name.is_some() {
            deltas.push(Delta::ToolCall {
                index: position,
                id,
                name,
                arguments,
            });
        }
        Ok(())
    }

    /// Reports the withheld arguments at the end of the response, because the arguments turned out
    /// to be no placeholders.
    pub(super) fn report_withheld_arguments(&mut self, deltas: &mut Vec<Delta>) {
        if !std::mem::take(&mut self.has_withheld_arguments) {
            return;
        }
        for (index, call) in self.calls.iter_mut().enumerate() {
            let arguments = call.take_unreported_arguments();
            if !arguments.is_empty() {
                deltas.push(arguments_delta(index, arguments));
            }
        }
    }

    /// Returns the position of the call that a piece belongs to, which may be a new call.
    fn find_or_add(&mut self, piece: &CallDelta) -> usize {
        let existing_position = match (piece.index, &piece.id) {
            (Some(index), id) => {
                let position = self.positions_by_index.get(&index).copied();
                position.filter(|position| {
                    let call = &self.calls[*position];
                    match (id, &piece.name) {
                        (_, None) => true,
                        (Some(id), Some(_)) => call.has_generated_id || *id == call.id,
                        (None, Some(name)) => !call.is_followed_by(name, &piece.arguments),
                    }
                })
            }
            (None, Some(id)) => self.positions_by_id.get(id).copied(),
            (None, None) if piece.name.is_none() => self.calls.len().checked_sub(1),
            (None, None) => None,
        };
        let position = existing_position.unwrap_or_else(|| {
            self.calls.push(StreamedCall {
                index: piece.index,
                ..StreamedCall::default()
            });
            self.calls.len() - 1
        });
        if let Some(index) = piece.index {
            self.positions_by_index.insert(index, position);
        }
        position
    }

    /// Returns the calls in the form that an unstreamed message has, ordered by index.
    pub(super) fn into_values(mut self) -> Vec<Value> {
        if self.calls.iter().all(|call| call.index.is_some()) {
            self.calls.sort_by_key(|call| call.index);
        }
        self.calls
            .into_iter()
            .map(StreamedCall::into_value)
            .collect()
    }
}

impl StreamedCall {
    /// Adds a piece to the arguments, or replaces a placeholder.
    fn add_arguments(&mut self, piece: &str) {
        if self.is_placeholder() && !piece.trim().is_empty() {
            self.arguments.clear();
            self.scan = ObjectScan::default();
            self.reported_len = 0;
        }
        self.arguments.push_str(piece);
        self.scan.push(piece);
    }

    /// Returns whether the arguments that have arrived may be a placeholder for arguments that
    /// follow.
    fn is_placeholder(&self) -> bool {
        self.arguments.len() <= MAX_PLACEHOLDER_BYTES
            && PLACEHOLDERS.contains(&self.arguments.trim())
    }

    /// Returns whether the arguments are complete and a piece repeats the whole arguments.
    fn is_repeated_by(&self, piece: &str) -> bool {
        let text = piece.trim();
        !text.is_empty() && self.scan.is_complete() && self.arguments.trim() == text
    }

    /// Returns whether the call is complete and a piece with this name begins another call. Some
    /// servers repeat the name in each piece of a call.
    fn is_followed_by(&self, name: &str, arguments: &str) -> bool {
        let may_continue = || {
            arguments.trim().is_empty() || self.is_placeholder() || self.is_repeated_by(arguments)
        };
        self.scan.is_complete() && (self.name != name || !may_continue())
    }

    /// Returns the arguments that listeners have not received, and counts them as received.
    fn take_unreported_arguments(&mut self) -> String {
        let arguments = self.arguments[self.reported_len..].to_owned();
        self.reported_len = self.arguments.len();
        arguments
    }

    fn into_value(self) -> Value {
        let mut call = Map::new();
        call.insert("id".to_owned(), json!(self.id));
        call.insert("type".to_owned(), json!("function"));
        let arguments = match self.arguments.as_str() {
            "" => "{}".to_owned(),
            _ => self.arguments,
        };
        let function = json!({"name": self.name, "arguments": arguments});
        call.insert("function".to_owned(), function);
        call.extend(self.other_members);
        Value::Object(call)
    }
}

impl CallDelta {
    fn parse(piece: Value) -> Result<Self, ModelError> {
        let Value::Object(mut members) = piece else {
            return Err(OpenAiChat.malformed("a tool call is not an object"));
        };
        let non_empty_text = |value: Option<Value>| match value {
            Some(Value::String(text)) if !text.is_empty() => Some(text),
            _ => None,
        };
        let index = members.remove("index").and_then(|index| index.as_u64());
        let id = non_empty_text(members.remove("id"));
        let mut function = match members.remove("function") {
            Some(Value::Object(function)) => function,
            None | Some(Value::Null) => Map::new(),
            Some(_) => {
                return Err(OpenAiChat.malformed("the function of a tool call is not an object"));
            }
        };
        let arguments = match function.remove("arguments") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text,
            // Converts arguments that are an object to text, because some compatible servers send
            // the complete arguments as an object.
            Some(arguments) => arguments.to_string(),
        };
        members.retain(|_, value| !value.is_null());
        Ok(Self {
            index,
            id,
            name: non_empty_text(function.remove("name")),
            arguments,
            other_members: members,
        })
    }
}
