use std::ops::Deref;
use std::ptr::NonNull;

use ext_php_rs::types::{ZendHashTable, Zval};

use super::ffi;
use super::hold::{HeldTable, hold_value};
use super::table::{TableKey, slots};

/// All properties, of every visibility (`ZEND_PROP_PURPOSE_ARRAY_CAST`).
const PURPOSE_ARRAY_CAST: i32 = 1;
/// The properties as `json_encode` sees them (`ZEND_PROP_PURPOSE_JSON`).
const PURPOSE_JSON: i32 = 4;

/// The properties of an object, as a table that is released on drop.
pub struct Properties(HeldTable);

impl Properties {
    /// Returns the properties of an object as `json_encode` sees them; `None` if the object has
    /// none.
    ///
    /// PHP code may run: call this function inside [`run_guarded`](super::run_guarded).
    pub fn for_json(object: &Zval) -> Option<Self> {
        Self::for_purpose(object, PURPOSE_JSON)
    }

    /// Returns all properties, as `(array) $object` does: the names of non-public properties begin
    /// with a NUL byte. Returns `None` if the object has no properties.
    ///
    /// PHP code may run: call this function inside [`run_guarded`](super::run_guarded).
    pub fn for_array(object: &Zval) -> Option<Self> {
        Self::for_purpose(object, PURPOSE_ARRAY_CAST)
    }

    /// Iterates over the names and values of the properties. Each value has its own reference
    /// count; see [`hold_value`].
    pub fn entries(&self) -> impl Iterator<Item = (TableKey<'_>, Zval)> {
        #![expect(
            clippy::disallowed_methods,
            reason = "this value holds the table, and `hold_value` each value"
        )]
        slots(self).map(|(key, value)| (key, hold_value(value)))
    }

    fn for_purpose(object: &Zval, purpose: i32) -> Option<Self> {
        if !object.is_object() {
            return None;
        }
        // SAFETY: the zval holds an object and is only read.
        let table =
            unsafe { ffi::zend_get_properties_for(std::ptr::from_ref(object).cast_mut(), purpose) };
        // SAFETY: the engine returns the table with a reference that belongs to the caller.
        NonNull::new(table).map(|table| Self(unsafe { HeldTable::from_raw(table) }))
    }
}

impl Deref for Properties {
    type Target = ZendHashTable;

    fn deref(&self) -> &ZendHashTable {
        self.0.table()
    }
}
