use std::collections::HashMap;

use serde_json::Value;

use super::non_empty_text;
use crate::Delta;
use crate::turn::arguments_delta;

/// The calls of a streamed response, in the order in which they begin. Some servers give several
/// items the same `output_index`, or none, so the IDs of a call take precedence.
#[derive(Default)]
pub(super) struct PartialCalls {
    calls: Vec<PartialCall>,
    /// The positions of the calls, by their `call_id` and by the `id` of their item.
    positions_by_id: HashMap<String, usize>,
    /// The positions of the newest calls, by their `output_index`.
    positions_by_index: HashMap<u64, usize>,
}

/// A call whose first event has arrived, and whose last event may still be missing.
struct PartialCall {
    id: Option<String>,
    call_id: Option<String>,
    /// The number of bytes of `arguments` that deltas have already contained.
    streamed_bytes: usize,
    is_complete: bool,
}

impl PartialCalls {
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Begins the call of an item, unless the call has begun. Returns the position of the call;
    /// `None` if the item is not a call.
    pub(super) fn start_call(
        &mut self,
        output_index: Option<u64>,
        item: &Value,
        deltas: &mut Vec<Delta>,
    ) -> Option<usize> {
        if item["type"] != "function_call" {
            return None;
        }
        let id = non_empty_text(&item["id"]);
        let call_id = non_empty_text(&item["call_id"]);
        let position = self
            .find_call(output_index, id, call_id)
            .unwrap_or_else(|| self.add_call(item, deltas));
        for id in [id, call_id].into_iter().flatten() {
            self.positions_by_id.insert(id.to_owned(), position);
        }
        if let Some(output_index) = output_index {
            self.positions_by_index.insert(output_index, position);
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
        let known_position = item_id.and_then(|id| self.positions_by_id.get(id).copied());
        if let Some(position) = known_position.or_else(|| self.find_newest_call(output_index)) {
            self.calls[position].streamed_bytes += piece.len();
            deltas.push(arguments_delta(position, piece));
        }
    }

    /// Ends a call. Emits arguments that no piece contained: some servers send arguments only with
    /// the complete item.
    pub(super) fn finish_call(&mut self, position: usize, item: &Value, deltas: &mut Vec<Delta>) {
        let call = &mut self.calls[position];
        let was_complete = std::mem::replace(&mut call.is_complete, true);
        if !was_complete && call.streamed_bytes == 0 {
            let arguments = non_empty_text(&item["arguments"]).unwrap_or("{}");
            deltas.push(arguments_delta(position, arguments));
        }
    }

    fn add_call(&mut self, item: &Value, deltas: &mut Vec<Delta>) -> usize {
        let read_text = |key: &str| non_empty_text(&item[key]).map(str::to_owned);
        let arguments = read_text("arguments").unwrap_or_default();
        let index = self.calls.len();
        self.calls.push(PartialCall {
            id: read_text("id"),
            call_id: read_text("call_id"),
            streamed_bytes: arguments.len(),
            is_complete: false,
        });
        deltas.push(Delta::ToolCall {
            index,
            id: read_text("call_id"),
            name: read_text("name"),
            arguments,
        });
        index
    }

    /// Returns the position of the call with one of these IDs. Otherwise returns the position of
    /// the newest call with this index, unless that call is complete or has other IDs.
    fn find_call(
        &self,
        output_index: Option<u64>,
        id: Option<&str>,
        call_id: Option<&str>,
    ) -> Option<usize> {
        let find_position = |id: Option<&str>| self.positions_by_id.get(id?).copied();
        let has_other_call_id = |position: &usize| {
            let known_call_id = self.calls[*position].call_id.as_deref();
            have_different_ids(known_call_id, call_id)
        };
        let is_open = |position: &usize| {
            let call = &self.calls[*position];
            !call.is_complete && !have_different_ids(call.id.as_deref(), id)
        };
        find_position(call_id)
            .or_else(|| find_position(id).filter(|position| !has_other_call_id(position)))
            .or_else(|| {
                let newest_call = self.find_newest_call(output_index).filter(is_open);
                newest_call.filter(|position| !has_other_call_id(position))
            })
    }

    /// Returns the position of the newest call with this index, or of the newest call if the event
    /// has no index.
    fn find_newest_call(&self, output_index: Option<u64>) -> Option<usize> {
        match output_index {
            Some(output_index) => self.positions_by_index.get(&output_index).copied(),
            None => self.calls.len().checked_sub(1),
        }
    }
}

/// Returns whether two items have different IDs. An item without an ID may be any item.
fn have_different_ids(known_id: Option<&str>, other_id: Option<&str>) -> bool {
    matches!((known_id, other_id), (Some(known_id), Some(other_id)) if known_id != other_id)
}
