//! Limits the size of events: one large event would displace many others from the ring.

use pillion_mcp_client::shortened;
use serde_json::{Value, json};

/// Maximum size of the data of one event, in bytes.
pub(super) const MAX_EVENT_BYTES: usize = 8 * 1024;

/// Limits of the first attempt to shorten an event. Each further attempt halves them.
const MAX_TEXT_BYTES: usize = 2 * 1024;
const MAX_TEXT_BYTES_PER_ITEM: usize = 32;

/// Serializes the data of an event. If that is too large, texts are shortened, lists have only their
/// first items, and `truncated` is true.
pub(super) fn serialize_limited(mut data: Value) -> String {
    let mut text = data.to_string();
    if text.len() <= MAX_EVENT_BYTES {
        return text;
    }
    data["truncated"] = json!(true);
    let mut max_text_bytes = MAX_TEXT_BYTES;
    while text.len() > MAX_EVENT_BYTES && max_text_bytes >= MAX_TEXT_BYTES_PER_ITEM {
        shorten_members(&mut data, max_text_bytes);
        text = data.to_string();
        max_text_bytes /= 2;
    }
    text
}

fn shorten_members(value: &mut Value, max_text_bytes: usize) {
    match value {
        Value::String(text) => *text = shortened(text, max_text_bytes).into_owned(),
        Value::Array(items) => {
            items.truncate(max_text_bytes / MAX_TEXT_BYTES_PER_ITEM);
            for item in items {
                shorten_members(item, max_text_bytes);
            }
        }
        Value::Object(members) => {
            for member in members.values_mut() {
                shorten_members(member, max_text_bytes);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_and_each_list_of_a_large_event_is_shortened() {
        let members = |value: &Value, count: usize| {
            let members = (0..count).map(|nth| (format!("m{nth}"), value.clone()));
            Value::Object(members.collect())
        };
        let values = [
            json!("x".repeat(1_000_000)),
            json!("\u{1b}".repeat(1_000_000)),
            json!("😀".repeat(1_000_000)),
            json!(vec!["name"; 100_000]),
            json!(vec!["x".repeat(10_000); 1_000]),
            json!({"inner": vec![vec!["\u{1}".repeat(1_000); 100]; 100]}),
        ];
        for value in values {
            for count in [1, 3, 15] {
                let mut data = members(&value, count);
                data["id"] = json!("7");
                let text = serialize_limited(data);
                assert!(text.len() <= MAX_EVENT_BYTES, "{} bytes", text.len());
                let data: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(data["truncated"], true);
                assert_eq!(data["id"], "7");
                assert!(!data["m0"].is_null());
            }
        }
        let small = json!({"error": "x".repeat(MAX_EVENT_BYTES - 20)});
        assert_eq!(serialize_limited(small.clone()), small.to_string());
    }
}
