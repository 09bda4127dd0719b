use std::collections::HashMap;

use serde_json::Value;

use super::text_of;
use crate::Delta;
use crate::turn::more_arguments;

/// The calls of a streamed response, in the order in which they begin. Some servers give several
/// items the same `output_index`, or none, so the ids of a call take precedence.
#[derive(Default)]
pub(super) struct Calls {
    calls: Vec<PartialCall>,
    /// The positions of the calls, by their `call_id` and by the `id` of their item.
    by_id: HashMap<String, usize>,
    /// The positions of the newest calls, by their `output_index`.
    by_output_index: HashMap<u64, usize>,
}

/// A call that has begun, but may not have ended.
struct PartialCall {
    id: Option<String>,
    call_id: Option<String>,
    /// The number of bytes of the arguments that were emitted.
    streamed_bytes: usize,
    is_complete: bool,
}

impl Calls {
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Begins the call of an item, unless the call has begun. Returns the position of the call;
    /// `None` if the item is not a call.
    pub(super) fn begin(
        &mut self,
        output_index: Option<u64>,
        item: &Value,
        deltas: &mut Vec<Delta>,
    ) -> Option<usize> {
        if item["type"] != "function_call" {
            return None;
        }
        let (id, call_id) = (text_of(&item["id"]), text_of(&item["call_id"]));
        let position = self
            .find(output_index, id, call_id)
            .unwrap_or_else(|| self.add(item, deltas));
        for id in [id, call_id].into_iter().flatten() {
            self.by_id.insert(id.to_owned(), position);
        }
        if let Some(output_index) = output_index {
            self.by_output_index.insert(output_index, position);
        }
        Some(position)
    }

    /// Emits a piece of the arguments of a call.
    pub(super) fn add_arguments(
        &mut self,
        output_index: Option<u64>,
        item_id: Option<&str>,
        piece: &str,
        deltas: &mut Vec<Delta>,
    ) {
        let known = item_id.and_then(|id| self.by_id.get(id).copied());
        if let Some(position) = known.or_else(|| self.newest(output_index)) {
            self.calls[position].streamed_bytes += piece.len();
            deltas.push(more_arguments(position, piece));
        }
    }

    /// Ends a call. Emits arguments that no piece contained: some servers send arguments only with
    /// the complete item.
    pub(super) fn end(&mut self, position: usize, item: &Value, deltas: &mut Vec<Delta>) {
        let call = &mut self.calls[position];
        let was_complete = std::mem::replace(&mut call.is_complete, true);
        if !was_complete && call.streamed_bytes == 0 {
            let arguments = text_of(&item["arguments"]).unwrap_or("{}");
            deltas.push(more_arguments(position, arguments));
        }
    }

    fn add(&mut self, item: &Value, deltas: &mut Vec<Delta>) -> usize {
        let text = |key: &str| text_of(&item[key]).map(str::to_owned);
        let arguments = text("arguments").unwrap_or_default();
        let index = self.calls.len();
        self.calls.push(PartialCall {
            id: text("id"),
            call_id: text("call_id"),
            streamed_bytes: arguments.len(),
            is_complete: false,
        });
        deltas.push(Delta::ToolCall {
            index,
            id: text("call_id"),
            name: text("name"),
            arguments,
        });
        index
    }

    /// Returns the position of the call with one of these ids. Otherwise returns the position of
    /// the newest call with this index, unless that call is complete or has other ids.
    fn find(
        &self,
        output_index: Option<u64>,
        id: Option<&str>,
        call_id: Option<&str>,
    ) -> Option<usize> {
        let with_id = |id: Option<&str>| self.by_id.get(id?).copied();
        let has_other_call_id = |position: &usize| {
            let known = self.calls[*position].call_id.as_deref();
            are_different(known, call_id)
        };
        let is_open = |position: &usize| {
            let call = &self.calls[*position];
            !call.is_complete && !are_different(call.id.as_deref(), id)
        };
        with_id(call_id)
            .or_else(|| with_id(id).filter(|position| !has_other_call_id(position)))
            .or_else(|| {
                let newest = self.newest(output_index).filter(is_open);
                newest.filter(|position| !has_other_call_id(position))
            })
    }

    /// Returns the position of the newest call with this index, or of the newest call if the event
    /// has no index.
    fn newest(&self, output_index: Option<u64>) -> Option<usize> {
        match output_index {
            Some(output_index) => self.by_output_index.get(&output_index).copied(),
            None => self.calls.len().checked_sub(1),
        }
    }
}

/// Returns whether two items have different ids. An item without an id may be any item.
fn are_different(known: Option<&str>, other: Option<&str>) -> bool {
    matches!((known, other), (Some(known), Some(other)) if known != other)
}
