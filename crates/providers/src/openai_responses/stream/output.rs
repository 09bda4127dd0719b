use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::non_empty_text;

/// The output of a streamed response, for a server whose last event has no output.
#[derive(Default)]
pub(super) struct StreamedOutput {
    /// The completed items with their `output_index`, in the order of their events.
    items: Vec<(Option<u64>, Value)>,
    /// The positions of the items, by the ID of each item. Some servers give several items the same
    /// `output_index`, or none.
    positions_by_id: HashMap<String, usize>,
    /// The streamed texts, by key.
    texts: BTreeMap<TextKey, String>,
    has_pieces: bool,
}

/// Identifies a streamed text of the response.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TextKey {
    pub(super) output_index: Option<u64>,
    pub(super) is_refusal: bool,
}

impl StreamedOutput {
    /// Adds a completed item. An item with the ID of an earlier item replaces that item.
    pub(super) fn add_item(&mut self, output_index: Option<u64>, item: Value) {
        let id = find_reference_id(&item);
        if let Some(position) = id.and_then(|id| self.positions_by_id.get(id).copied()) {
            self.items[position] = (output_index, item);
            return;
        }
        if let Some(id) = id {
            self.positions_by_id.insert(id.to_owned(), self.items.len());
        }
        self.items.push((output_index, item));
    }

    /// Appends a piece to a streamed text.
    pub(super) fn add_piece(&mut self, key: TextKey, piece: &str) {
        self.has_pieces = true;
        self.texts.entry(key).or_default().push_str(piece);
    }

    /// Adds a complete text, unless the server sends texts in pieces or has sent this text already.
    /// Returns whether the text was added.
    pub(super) fn add_text(&mut self, key: TextKey, text: &str) -> bool {
        let existing_text = self.texts.get(&key).map(String::as_str);
        if self.has_pieces || existing_text == Some(text) {
            return false;
        }
        self.texts.entry(key).or_default().push_str(text);
        true
    }

    /// Returns the items, ordered by `output_index` if all items have one, otherwise in the order
    /// of their events. If no item is a message, the streamed texts become messages.
    pub(super) fn into_items(mut self) -> Vec<Value> {
        if !self.items.iter().any(|(_, item)| item["type"] == "message") {
            for (key, text) in self.texts {
                self.items
                    .push((key.output_index, format_message_item(key, &text)));
            }
        }
        if self.items.iter().all(|(index, _)| index.is_some()) {
            self.items.sort_by_key(|(index, _)| *index);
        }
        self.items.into_iter().map(|(_, item)| item).collect()
    }
}

/// Returns the ID by which events refer to an item. Some servers change the `id` of a call from
/// event to event.
fn find_reference_id(item: &Value) -> Option<&str> {
    let call_id = non_empty_text(&item["call_id"]).filter(|_| item["type"] == "function_call");
    call_id.or_else(|| non_empty_text(&item["id"]))
}

fn format_message_item(key: TextKey, text: &str) -> Value {
    let part = if key.is_refusal {
        json!({"type": "refusal", "refusal": text})
    } else {
        json!({"type": "output_text", "text": text, "annotations": []})
    };
    json!({"type": "message", "status": "completed", "role": "assistant", "content": [part]})
}
