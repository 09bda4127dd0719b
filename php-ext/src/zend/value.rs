use std::ffi::CStr;

use ext_php_rs::boxed::ZBox;
use ext_php_rs::ffi::{IS_ARRAY, IS_UNDEF, zend_empty_array};
use ext_php_rs::types::{ZendHashTable, ZendStr, Zval};

use super::{Outcome, Result, ffi};

/// Returns the type of a value as PHP's own messages name it: `int`, `array`, or the name of a
/// class.
pub fn type_name(value: &Zval) -> String {
    // SAFETY: the engine returns a static string, or the name of a class that the value keeps
    // alive; the name is copied before other code runs.
    let name = unsafe { CStr::from_ptr(ffi::zend_zval_type_name(value)) };
    name.to_string_lossy().into_owned()
}

/// Converts a PHP string to text. Bytes that are not UTF-8 become escapes such as `\xE9`, so that
/// no byte is lost.
pub fn escape_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02X}"));
        }
    }
    text
}

/// Returns a string value.
pub fn new_string(text: impl AsRef<[u8]>) -> Zval {
    let mut value = Zval::new();
    value.set_zend_string(ZendStr::new(text, false));
    value
}

/// Returns a boolean value.
pub fn new_bool(boolean: bool) -> Zval {
    let mut value = Zval::new();
    value.set_bool(boolean);
    value
}

/// Returns an integer value.
pub fn new_int(number: i64) -> Zval {
    let mut value = Zval::new();
    value.set_long(number);
    value
}

/// Returns a float value.
pub fn new_float(number: f64) -> Zval {
    let mut value = Zval::new();
    value.set_double(number);
    value
}

/// Returns the float of a value that is an integer or a float.
#[expect(clippy::cast_precision_loss, reason = "seconds may be rounded")]
pub fn to_float(value: &Zval) -> Option<f64> {
    value
        .double()
        .or(value.long().map(|integer| integer as f64))
}

/// Returns an associative array with the given entries, in the given order.
pub fn new_array<'a>(entries: impl IntoIterator<Item = (&'a str, Zval)>) -> Zval {
    let mut table = ZendHashTable::new();
    for (key, entry) in entries {
        insert(&mut table, key, entry);
    }
    into_array(table)
}

/// Returns a PHP list with the given values, in the given order.
pub fn new_list(entries: impl IntoIterator<Item = Zval>) -> Zval {
    let mut table = ZendHashTable::new();
    for entry in entries {
        // The error of the push is ignored: a push fails only if the next index overflows, which
        // cannot happen in a list.
        let _ = table.push(entry);
    }
    into_array(table)
}

/// Returns a PHP list with the given values, in the given order.
///
/// # Errors
/// The first failure among the values.
pub fn try_new_list(entries: impl Iterator<Item = Outcome>) -> Outcome {
    entries.collect::<Result<Vec<_>>>().map(new_list)
}

/// Returns a hash table as a PHP array.
pub fn into_array(table: ZBox<ZendHashTable>) -> Zval {
    let mut value = Zval::new();
    value.set_hashtable(table);
    value
}

/// Returns a copy of an array with one entry set: at its previous position, or at the end.
pub fn with_entry(array: &Zval, key: &str, entry: Zval) -> Zval {
    let mut table = copy_array(array);
    insert(&mut table, key, entry);
    into_array(table)
}

/// Returns a copy of an array with several entries set, each at its previous position or at the
/// end.
pub fn with_entries(array: &Zval, entries: impl IntoIterator<Item = (String, Zval)>) -> Zval {
    let mut table = copy_array(array);
    for (key, entry) in entries {
        insert(&mut table, &key, entry);
    }
    into_array(table)
}

/// Returns a copy of an array without one entry.
pub fn without_entry(array: &Zval, key: &str) -> Zval {
    let mut table = copy_array(array);
    table.remove(key);
    into_array(table)
}

fn copy_array(array: &Zval) -> ZBox<ZendHashTable> {
    array
        .array()
        .map_or_else(ZendHashTable::new, ToOwned::to_owned)
}

fn insert(table: &mut ZendHashTable, key: &str, entry: Zval) {
    // Inserting a string key cannot fail: if memory is short, the engine bails out.
    let _ = table.insert(key, entry);
}

/// Returns PHP's shared empty array. It is suitable as the default of a property, which must not be
/// reference-counted.
pub fn empty_array() -> Zval {
    let mut value = Zval::new();
    value.u1.type_info = IS_ARRAY;
    // The empty array is immutable, so it is not reference-counted and never written.
    value.value.arr = (&raw const zend_empty_array).cast_mut();
    value
}

/// Returns the undefined value: the state of a typed property before it is set.
pub fn undefined_value() -> Zval {
    let mut value = Zval::new();
    value.u1.type_info = IS_UNDEF;
    value
}
