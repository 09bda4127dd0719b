use pillion_core::digest::sha256_hex;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The member of an entry of `tools/list` that is not part of the tool's definition: metadata, which
/// may differ in each list.
const UNPINNED_MEMBER: &str = "_meta";

/// The definition of a tool in a canonical form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) name: String,
    /// Canonical JSON: sorted keys, no white space.
    pub(super) text: String,
    /// The SHA-256 hash of `text`, in hexadecimal.
    pub(super) hash: String,
}

impl Definition {
    /// Reads an entry; returns `None` for an entry without a name.
    pub(super) fn read(entry: &RawValue) -> Option<Self> {
        let mut entry: Map<String, Value> = serde_json::from_str(entry.get()).ok()?;
        entry.retain(|key, value| key != UNPINNED_MEMBER && !value.is_null());
        let name = entry.get("name")?.as_str()?.to_owned();
        let mut whole = Value::Object(entry);
        whole.sort_all_objects();
        let text = whole.to_string();
        let hash = sha256_hex(&text);
        Some(Self { name, text, hash })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Definition> {
        Definition::read(&RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn the_digest_depends_on_values_and_not_on_their_order() {
        let one = read(r#"{"name":"a","inputSchema":{"type":"object","x":1},"_meta":{"n":1}}"#);
        let same =
            read(r#"{ "inputSchema": {"x":1, "type":"object"}, "name": "a", "title": null }"#);
        assert_eq!(one, same);
        for other in [
            r#"{"name":"a","inputSchema":{"type":"object","x":2}}"#,
            r#"{"name":"a","inputSchema":{"type":"object","x":1},"description":""}"#,
            r#"{"name":"a","inputSchema":{"type":"object","x":1},"annotations":{}}"#,
            r#"{"name":"a","inputSchema":{"type":"object","x":1},"title":"b"}"#,
            r#"{"name":"a","inputSchema":{"type":"object","x":1},"outputSchema":{}}"#,
            r#"{"name":"a","inputSchema":{"type":"object","x":1},"execution":{}}"#,
            r#"{"name":"a","inputSchema":{"type":"object","x":1},"member of a later revision":1}"#,
        ] {
            assert_ne!(one, read(other), "{other}");
        }
        assert_eq!(read("[]"), None);
        assert_eq!(read("{}"), None);
    }
}
