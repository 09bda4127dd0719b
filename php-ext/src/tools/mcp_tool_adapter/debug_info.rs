//! The properties that dumps of an `MCPToolAdapter` show, without the credentials of the server.

use ext_php_rs::boxed::ZBox;
use ext_php_rs::flags::DataType;
use ext_php_rs::types::{ArrayKey, ZendHashTable, Zval};
use pillion_mcp_client::ServerConfig;

use crate::zend::{
    MethodCall, Outcome, Properties, TableKey, entries, into_array, new_string, run_guarded,
};

/// The mangled name of the protected property with the server's entry.
const SERVER_CONFIG: &[u8] = b"\0*\0serverConfig";
const SERVER_URL: &str = "server_url";
/// Maximum nesting of an entry in a dump. The limit is necessary, because the entry of a subclass
/// may contain itself.
const MAX_DEPTH: usize = 16;
/// The placeholder for a credential in a dump.
const REDACTED: &str = "[redacted]";
/// Keys of a server's entry whose whole value may be secret.
const SECRET_KEYS: [&str; 5] = ["authentication", "cookie", "env", "headers", "oauth"];
/// Substrings that mark the value of any other key as a credential.
const SECRET_KEY_PARTS: [&str; 6] = [
    "authorization",
    "credential",
    "key",
    "passw",
    "secret",
    "token",
];
/// Keys whose value is no credential although they contain one of [`SECRET_KEY_PARTS`].
const NON_SECRET_KEYS: [&str; 1] = ["token_in_query"];

/// Implements `__debugInfo()`, which `var_dump()`, `print_r()` and debuggers call.
pub(super) fn debug_info(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this().to_value();
    let properties = run_guarded(|| Properties::for_array(&this))?;
    let set_properties = properties
        .iter()
        .flat_map(Properties::entries)
        .filter(|(_, value)| value.get_type() != DataType::Undef);
    let mut redacted_properties = ZendHashTable::new();
    for (key, value) in set_properties {
        let is_entry = key
            .zend_str()
            .is_some_and(|name| name.as_bytes() == SERVER_CONFIG);
        let displayed_value = if is_entry && value.is_array() {
            redact_credentials(&value, MAX_DEPTH)
        } else {
            value
        };
        insert_entry(&mut redacted_properties, key, displayed_value);
    }
    Ok(into_array(redacted_properties))
}

fn redact_credentials(entry: &Zval, remaining_levels: usize) -> Zval {
    let mut redacted_entries = ZendHashTable::new();
    for (key, value) in entries(entry) {
        let name = key.string().unwrap_or_default().to_ascii_lowercase();
        let redacted_value = if value.is_null() || value.is_bool() {
            value
        } else if is_secret(&name) || remaining_levels == 0 {
            new_string(REDACTED)
        } else if let (SERVER_URL, Some(url)) = (name.as_str(), value.str()) {
            new_string(redact_query(url))
        } else if value.is_array() {
            redact_credentials(&value, remaining_levels - 1)
        } else {
            value
        };
        insert_entry(&mut redacted_entries, key, redacted_value);
    }
    into_array(redacted_entries)
}

fn is_secret(name: &str) -> bool {
    let has_secret_part = SECRET_KEY_PARTS.iter().any(|part| name.contains(part));
    SECRET_KEYS.contains(&name) || has_secret_part && !NON_SECRET_KEYS.contains(&name)
}

/// Returns the URL without its query and fragment, or a placeholder if the URL is invalid.
fn redact_query(url: &str) -> String {
    ServerConfig::new("mcp", url)
        .map_or_else(|_| REDACTED.to_owned(), |server| server.display_url())
}

fn insert_entry(table: &mut ZBox<ZendHashTable>, key: TableKey<'_>, value: Zval) {
    let array_key = match key {
        TableKey::Index(index) => ArrayKey::Long(index),
        TableKey::Name(name) => ArrayKey::ZendString(name),
    };
    // Inserting a string key cannot fail: if memory is exhausted, PHP's engine bails out.
    let _ = table.insert(array_key, value);
}
