use std::ops::Deref;
use std::ptr::NonNull;

use ext_php_rs::types::{ZendHashTable, Zval};

use super::ffi;
use super::held::{HeldTable, held};
use super::table::{Key, slots};

/// `ZEND_PROP_PURPOSE_ARRAY_CAST`: all properties, of every visibility.
const ARRAY_CAST: i32 = 1;
/// `ZEND_PROP_PURPOSE_JSON`: the properties as `json_encode` sees them.
const JSON: i32 = 4;

/// The properties of an object, as a table that is released on drop.
pub struct Properties(HeldTable);

impl Properties {
    /// Returns the properties as `json_encode` sees them. Returns `None` if the object has none.
    ///
    /// This can run PHP code: call it inside [`run_guarded`](super::run_guarded).
    pub fn for_json(object: &Zval) -> Option<Self> {
        Self::for_purpose(object, JSON)
    }

    /// Returns all properties, as `(array) $object` does: the names of non-public properties begin
    /// with a NUL byte. Returns `None` if the object has no properties.
    ///
    /// This can run PHP code: call it inside [`run_guarded`](super::run_guarded).
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
        // SAFETY: the table comes with a reference of our own.
        NonNull::new(table).map(|table| Self(unsafe { HeldTable::from_raw(table) }))
    }
}

impl Deref for Properties {
    type Target = ZendHashTable;

    fn deref(&self) -> &ZendHashTable {
        self.0.table()
    }
}
