use std::fmt::Write;

use ring::digest::{SHA256, digest};
use serde_json::Value;

use crate::registry::RegisteredTool;
use crate::tool::{JsonObject, ToolOrigin};

/// The id of an approval: SHA-256, in hexadecimal digits, of the JSON
/// `{"arguments":{...},"server":...,"tool":...,"user":...}` with the keys of every object
/// in the order of their bytes and no white space. `server` is the label of the tool's MCP
/// server or null, so that an approval does not pass to another server's tool of the same
/// name; `user` may be null.
pub(super) fn of(tool: &RegisteredTool, arguments: &JsonObject, user: Option<&str>) -> String {
    let server = match tool.origin() {
        ToolOrigin::Mcp { server_label, .. } => Some(server_label.as_str()),
        ToolOrigin::Native => None,
    };
    let mut text = String::from("{\"arguments\":");
    write_object(&mut text, arguments);
    for (key, value) in [
        ("server", server),
        ("tool", Some(tool.name().as_str())),
        ("user", user),
    ] {
        // Writing to a string cannot fail, here and below.
        let _ = write!(text, ",\"{key}\":{}", Value::from(value));
    }
    text.push('}');
    let hash = digest(&SHA256, text.as_bytes());
    hash.as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Object(object) => write_object(text, object),
        Value::Array(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                write_value(text, item);
            }
            text.push(']');
        }
        scalar => {
            let _ = write!(text, "{scalar}");
        }
    }
}

fn write_object(text: &mut String, object: &JsonObject) {
    let mut entries: Vec<_> = object.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| key.as_bytes());
    text.push('{');
    for (place, (key, value)) in entries.into_iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        let _ = write!(text, "{}:", Value::from(key.as_str()));
        write_value(text, value);
    }
    text.push('}');
}
