//! The capabilities of clients, limited in size because a session stores them.

use std::sync::Arc;

use serde_json::{Map, Value};

/// Maximum size of all capabilities of one client as JSON, in bytes.
const MAX_CAPABILITIES_BYTES: usize = 8 * 1024;

/// Maximum size, as JSON in bytes, of a known capability that is stored unchanged. A larger one is
/// reduced to its known members.
const MAX_CAPABILITY_BYTES: usize = 1024;

/// The client capabilities that MCP defines (`ClientCapabilities`), each with the members that MCP
/// defines.
const KNOWN_CAPABILITIES: [(&str, &[&str]); 4] = [
    ("elicitation", &["form", "url"]),
    ("roots", &["listChanged"]),
    ("sampling", &["context", "tools"]),
    ("tasks", &["cancel", "list", "requests"]),
];

/// Returns the declared capabilities that are stored: all capabilities that MCP defines, reduced to
/// their known members if they are long, and as many other capabilities, such as extensions, as fit
/// into 8 KiB.
pub fn limit_size(declared_capabilities: Map<String, Value>) -> Arc<Map<String, Value>> {
    let mut remaining_bytes = MAX_CAPABILITIES_BYTES;
    let (known_capabilities, other_capabilities): (Vec<_>, Vec<_>) = declared_capabilities
        .into_iter()
        .partition(|(name, _)| known_members(name).is_some());
    let known_capabilities = known_capabilities.into_iter().map(|(name, value)| {
        let members = known_members(&name).unwrap_or_default();
        let value = if json_bytes(&value) <= MAX_CAPABILITY_BYTES {
            value
        } else {
            reduce(value, members)
        };
        (name, value)
    });
    let mut is_complete = true;
    let mut limited_capabilities: Map<String, Value> = Map::new();
    for (name, value) in known_capabilities.chain(other_capabilities) {
        let bytes = name.len() + json_bytes(&value);
        if bytes <= remaining_bytes {
            remaining_bytes -= bytes;
            limited_capabilities.insert(name, value);
        } else {
            is_complete = false;
        }
    }
    if !is_complete {
        tracing::debug!(
            limit_bytes = MAX_CAPABILITIES_BYTES,
            "Ignored some capabilities of an MCP client: together, they exceed the size limit"
        );
    }
    Arc::new(limited_capabilities)
}

fn known_members(capability: &str) -> Option<&'static [&'static str]> {
    let mut known_capabilities = KNOWN_CAPABILITIES.iter();
    let known_capability = known_capabilities.find(|(name, _)| *name == capability);
    known_capability.map(|(_, members)| *members)
}

/// Returns a capability with only the members `members`. A member whose size exceeds an eighth of
/// [`MAX_CAPABILITY_BYTES`] becomes an empty object.
fn reduce(capability: Value, members: &[&str]) -> Value {
    let Value::Object(mut members_by_name) = capability else {
        return Value::Object(Map::new());
    };
    members_by_name.retain(|name, _| members.contains(&name.as_str()));
    for member in members_by_name.values_mut() {
        if json_bytes(member) > MAX_CAPABILITY_BYTES / 8 {
            *member = Value::Object(Map::new());
        }
    }
    Value::Object(members_by_name)
}

fn json_bytes(value: &Value) -> usize {
    /// A writer that only counts bytes.
    struct ByteCounter(usize);
    impl std::io::Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = ByteCounter(0);
    serde_json::to_writer(&mut counter, value).map_or(usize::MAX, |()| counter.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bounded_value(declared: &Value) -> Value {
        Value::Object((*limit_size(declared.as_object().cloned().unwrap())).clone())
    }

    #[test]
    fn capabilities_of_a_usual_size_are_unchanged() {
        let declared = json!({
            "roots": {"listChanged": true},
            "sampling": {},
            "elicitation": {"form": {"own": 1}, "url": {}},
            "extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"]}},
            "experimental": {"own": {"depth": 3}},
            "later": {"a": [1, 2]},
        });
        assert_eq!(bounded_value(&declared), declared);
    }

    #[test]
    fn oversized_capabilities_are_reduced_to_known_members() {
        let long = "x".repeat(1024 * 1024);
        let declared = json!({
            "junk": long,
            "experimental": {"own": long},
            "sampling": {"tools": {}, "junk": long},
            "elicitation": {"form": {"junk": long}, "url": {}},
            "roots": long,
            "extensions": {"own": {}},
        });
        let expected = json!({
            "sampling": {"tools": {}},
            "elicitation": {"form": {}, "url": {}},
            "roots": {},
            "extensions": {"own": {}},
        });
        assert_eq!(bounded_value(&declared), expected);
        let many: Map<_, _> = (0..10_000).map(|n| (format!("c{n}"), json!({}))).collect();
        let limited = bounded_value(&Value::Object(many));
        assert!(json_bytes(&limited) < 2 * MAX_CAPABILITIES_BYTES);
    }
}
