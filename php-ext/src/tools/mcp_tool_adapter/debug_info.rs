//! Returns what dumps of an `MCPToolAdapter` show: the properties, without the credentials of the
//! server.

use ext_php_rs::boxed::ZBox;
use ext_php_rs::flags::DataType;
use ext_php_rs::types::{ArrayKey, ZendHashTable, Zval};
use pillion_mcp_client::ServerConfig;

use crate::zend::{
    Key, MethodCall, Outcome, Properties, entries, run_guarded, string_of, table_of,
};

/// The mangled name of the protected property with the server's entry.
const SERVER_CONFIG: &[u8] = b"\0*\0serverConfig";
const SERVER_URL: &str = "server_url";
/// Maximum nesting of an entry in a dump, because the entry of a subclass may contain itself.
const MAX_DEPTH: usize = 16;
/// The placeholder for a credential in a dump.
const REDACTED: &str = "[redacted]";
/// Keys of a server's entry whose whole value may be secret.
const SECRET_KEYS: [&str; 5] = ["authentication", "cookie", "env", "headers", "oauth"];
/// Parts of other keys that mark the value as a credential.
const SECRET_KEY_PARTS: [&str; 6] = [
    "authorization",
    "credential",
    "key",
    "passw",
    "secret",
    "token",
];
/// Keys whose value is no credential although they contain one of [`SECRET_KEY_PARTS`].
const PUBLIC_KEYS: [&str; 1] = ["token_in_query"];

/// Implements `__debugInfo()`, which `var_dump()`, `print_r()` and debuggers call.
pub(super) fn debug_info(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this().to_value();
    let properties = run_guarded(|| Properties::for_array(&this))?;
    let set_properties = properties
        .iter()
        .flat_map(Properties::entries)
        .filter(|(_, value)| value.get_type() != DataType::Undef);
    let mut redacted = ZendHashTable::new();
    for (key, value) in set_properties {
        let is_entry = key
            .zend_str()
            .is_some_and(|name| name.as_bytes() == SERVER_CONFIG);
        let shown = if is_entry && value.is_array() {
            without_credentials(&value, MAX_DEPTH)
        } else {
            value
        };
        put(&mut redacted, key, shown);
    }
    Ok(table_of(redacted))
}

fn without_credentials(entry: &Zval, levels: usize) -> Zval {
    let mut redacted = ZendHashTable::new();
    for (key, value) in entries(entry) {
        let name = key.string().unwrap_or_default().to_ascii_lowercase();
        let value = if value.is_null() || value.is_bool() {
            value
        } else if is_secret(&name) || levels == 0 {
            string_of(REDACTED)
        } else if let (SERVER_URL, Some(url)) = (name.as_str(), value.str()) {
            string_of(without_query(url))
        } else if value.is_array() {
            without_credentials(&value, levels - 1)
        } else {
            value
        };
        put(&mut redacted, key, value);
    }
    table_of(redacted)
}

fn is_secret(name: &str) -> bool {
    let has_secret_part = SECRET_KEY_PARTS.iter().any(|part| name.contains(part));
    SECRET_KEYS.contains(&name) || has_secret_part && !PUBLIC_KEYS.contains(&name)
}

/// Returns the URL as logs show it, or a placeholder if the URL cannot be parsed.
fn without_query(url: &str) -> String {
    ServerConfig::new("mcp", url)
        .map_or_else(|_| REDACTED.to_owned(), |server| server.display_url())
}

fn put(table: &mut ZBox<ZendHashTable>, key: Key<'_>, value: Zval) {
    let key = match key {
        Key::Index(index) => ArrayKey::Long(index),
        Key::Name(name) => ArrayKey::ZendString(name),
    };
    // Inserting a string key cannot fail: if memory is exhausted, PHP's engine bails out.
    let _ = table.insert(key, value);
}
