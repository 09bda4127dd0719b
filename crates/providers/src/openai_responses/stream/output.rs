use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::text_of;

/// The output of a streamed response, for a server whose last event has no output.
#[derive(Default)]
pub(super) struct StreamedOutput {
    /// The completed items with their `output_index`, in the order of their events.
    items: Vec<(Option<u64>, Value)>,
    /// The positions of the items, by the id of each item. Some servers give several items the same
    /// `output_index`, or none.
    by_id: HashMap<String, usize>,
    /// The streamed texts, by key.
    texts: BTreeMap<TextKey, String>,
    has_pieces: bool,
}

/// The key of a streamed text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TextKey {
    pub(super) output_index: Option<u64>,
    pub(super) is_refusal: bool,
}

impl StreamedOutput {
    /// Adds a completed item. An item with the id of an earlier item replaces that item.
    pub(super) fn add_item(&mut self, output_index: Option<u64>, item: Value) {
        let id = id_of(&item);
        if let Some(position) = id.and_then(|id| self.by_id.get(id).copied()) {
            self.items[position] = (output_index, item);
            return;
        }
        if let Some(id) = id {
            self.by_id.insert(id.to_owned(), self.items.len());
        }
        self.items.push((output_index, item));
    }

    /// Adds a piece of a text.
    pub(super) fn add_piece(&mut self, key: TextKey, piece: &str) {
        self.has_pieces = true;
        self.texts.entry(key).or_default().push_str(piece);
    }

    /// Adds a complete text, unless the server sends texts in pieces or has sent this text already.
    /// Returns whether the text was added.
    pub(super) fn add_text(&mut self, key: TextKey, text: &str) -> bool {
        let known = self.texts.get(&key).map(String::as_str);
        if self.has_pieces || known == Some(text) {
            return false;
        }
        self.texts.entry(key).or_default().push_str(text);
        true
    }

    /// Returns the items by their `output_index`, or in the order of their events if an item has no
    /// `output_index`. If no item is a message, the streamed texts become messages.
    pub(super) fn into_items(mut self) -> Vec<Value> {
        if !self.items.iter().any(|(_, item)| item["type"] == "message") {
            let texts = self.texts.into_iter();
            self.items
                .extend(texts.map(|(key, text)| (key.output_index, message(key, &text))));
        }
        if self.items.iter().all(|(index, _)| index.is_some()) {
            self.items.sort_by_key(|(index, _)| *index);
        }
        self.items.into_iter().map(|(_, item)| item).collect()
    }
}

/// Returns the id by which events refer to an item. Some servers change the `id` of a call from
/// event to event.
fn id_of(item: &Value) -> Option<&str> {
    let call_id = text_of(&item["call_id"]).filter(|_| item["type"] == "function_call");
    call_id.or_else(|| text_of(&item["id"]))
}

fn message(key: TextKey, text: &str) -> Value {
    let part = if key.is_refusal {
        json!({"type": "refusal", "refusal": text})
    } else {
        json!({"type": "output_text", "text": text, "annotations": []})
    };
    json!({"type": "message", "status": "completed", "role": "assistant", "content": [part]})
}
