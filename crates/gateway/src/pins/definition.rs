use pillion_core::digest::sha256_hex;
use serde_json::Value;

/// The member of an entry of `tools/list` that is not part of the tool's definition, because it
/// contains metadata that may differ in each list.
const UNPINNED_MEMBER: &str = "_meta";

/// The definition of an offered tool in a canonical form.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) name: String,
    /// The definition as canonical JSON: sorted keys, no white space.
    pub(super) text: String,
    /// The SHA-256 hash of `text`, in hexadecimal.
    pub(crate) hash: String,
}

impl Definition {
    /// Reads the definition from a validated entry of `tools/list`.
    pub(crate) fn new(name: &str, mut entry: Value) -> Self {
        if let Some(members) = entry.as_object_mut() {
            members.retain(|member, value| member != UNPINNED_MEMBER && !value.is_null());
        }
        entry.sort_all_objects();
        let text = entry.to_string();
        Self {
            name: name.to_owned(),
            hash: sha256_hex(&text),
            text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Definition {
        Definition::new("a", serde_json::from_str(text).unwrap())
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
    }
}
