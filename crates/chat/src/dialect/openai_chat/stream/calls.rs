use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::super::generate_call_id;
use super::malformed_error;
use crate::{Delta, ModelError};

/// The calls of an answer, assembled from their pieces. OpenAI's pieces name their call by `index`.
/// Some compatible servers omit the index or always send 0; for them, a piece starts a new call if
/// it has another id, or a name and no id, and otherwise continues the last call. A call without an
/// id gets a generated id at once, so that listeners can identify the call.
#[derive(Default)]
pub(super) struct Calls {
    calls: Vec<StreamedCall>,
    by_index: HashMap<u64, usize>,
    by_id: HashMap<String, usize>,
}

/// A call.
#[derive(Default)]
struct StreamedCall {
    index: Option<u64>,
    id: String,
    /// Whether the id was generated here.
    has_generated_id: bool,
    name: String,
    arguments: String,
    /// Other members of the call: some providers want to receive them back.
    rest: Map<String, Value>,
}

/// A piece of a call.
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    name: Option<String>,
    arguments: String,
    rest: Map<String, Value>,
}

impl Calls {
    /// Adds a piece. `answer` is the answer's id.
    pub(super) fn add(
        &mut self,
        piece: Value,
        answer: Option<&Value>,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), ModelError> {
        let piece = CallDelta::read(piece)?;
        let position = self.find_or_add(&piece);
        let call = &mut self.calls[position];
        let id = call.id.is_empty().then(|| {
            call.has_generated_id = piece.id.is_none();
            let generated = || generate_call_id(answer.and_then(Value::as_str), position);
            call.id = piece.id.clone().unwrap_or_else(generated);
            self.by_id.insert(call.id.clone(), position);
            call.id.clone()
        });
        // Some servers repeat the name in each piece.
        let name = piece.name.filter(|name| call.name != *name);
        call.name.push_str(name.as_deref().unwrap_or_default());
        call.arguments.push_str(&piece.arguments);
        call.rest.extend(piece.rest);
        deltas.push(Delta::ToolCall {
            index: position,
            id,
            name,
            arguments: piece.arguments,
        });
        Ok(())
    }

    /// Returns the position of the call that a piece belongs to, which may be a new call.
    fn find_or_add(&mut self, piece: &CallDelta) -> usize {
        let known = match (piece.index, &piece.id) {
            (Some(index), id) => self.by_index.get(&index).copied().filter(|position| {
                let call = &self.calls[*position];
                let is_other = id.as_ref().is_some_and(|id| *id != call.id);
                call.has_generated_id || !is_other || piece.name.is_none()
            }),
            (None, Some(id)) => self.by_id.get(id).copied(),
            (None, None) if piece.name.is_none() => self.calls.len().checked_sub(1),
            (None, None) => None,
        };
        let position = known.unwrap_or_else(|| {
            self.calls.push(StreamedCall {
                index: piece.index,
                ..StreamedCall::default()
            });
            self.calls.len() - 1
        });
        if let Some(index) = piece.index {
            self.by_index.insert(index, position);
        }
        position
    }

    /// Returns the calls in the form that they have in a message, ordered by index.
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
        call.extend(self.rest);
        Value::Object(call)
    }
}

impl CallDelta {
    fn read(piece: Value) -> Result<Self, ModelError> {
        let Value::Object(mut rest) = piece else {
            return Err(malformed_error("a tool call is not an object"));
        };
        let text = |value: Option<Value>| match value {
            Some(Value::String(text)) if !text.is_empty() => Some(text),
            _ => None,
        };
        let index = rest.remove("index").and_then(|index| index.as_u64());
        let id = text(rest.remove("id"));
        let mut function = match rest.remove("function") {
            Some(Value::Object(function)) => function,
            None | Some(Value::Null) => Map::new(),
            Some(_) => {
                return Err(malformed_error(
                    "the function of a tool call is not an object",
                ));
            }
        };
        let arguments = match function.remove("arguments") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text,
            // Some compatible servers send the complete arguments as an object.
            Some(other) => other.to_string(),
        };
        rest.retain(|_, value| !value.is_null());
        Ok(Self {
            index,
            id,
            name: text(function.remove("name")),
            arguments,
            rest,
        })
    }
}
