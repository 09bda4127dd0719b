use std::ops::Deref;
use std::ptr::NonNull;

use ext_php_rs::types::{ZendHashTable, Zval};

use super::ffi;
use super::held::{HeldTable, held};
use super::table::{Key, slots};

/// All properties, of every visibility (`ZEND_PROP_PURPOSE_ARRAY_CAST`).
const ARRAY_CAST: i32 = 1;
/// The properties as `json_encode` sees them (`ZEND_PROP_PURPOSE_JSON`).
const JSON: i32 = 4;

/// The properties of an object, as a table that is released on drop.
pub struct Properties(HeldTable);

impl Properties {
    /// Returns the properties of an object as `json_encode` sees them; `None` if the object has
    /// none.
    ///
    /// PHP code may run: call this function inside [`run_guarded`](super::run_guarded).
    pub fn for_json(object: &Zval) -> Option<Self> {
        Self::for_purpose(object, JSON)
    }

    /// Returns all properties, as `(array) $object` does: the names of non-public properties begin
    /// with a NUL byte. Returns `None` if the object has no properties.
    ///
    /// PHP code may run: call this function inside [`run_guarded`](super::run_guarded).
    pub fn for_array(object: &Zval) -> Option<Self> {
        Self::for_purpose(object, ARRAY_CAST)
    }

    /// Iterates over the names and [`held()`] values of the properties.
    pub fn entries(&self) -> impl Iterator<Item = (Key<'_>, Zval)> {
        #![expect(
            clippy::disallowed_methods,
            reason = "this value holds the table, and `held` each value"
        )]
        slots(self).map(|(key, value)| (key, held(value)))
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
