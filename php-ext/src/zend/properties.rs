use std::ops::Deref;
use std::ptr::NonNull;

use ext_php_rs::ffi::{GC_IMMUTABLE, zend_array_destroy};
use ext_php_rs::types::{ZendHashTable, Zval};

use super::ffi;

/// `ZEND_PROP_PURPOSE_ARRAY_CAST`: all properties, of every visibility.
const ARRAY_CAST: i32 = 1;
/// `ZEND_PROP_PURPOSE_JSON`: the properties as `json_encode` sees them.
const JSON: i32 = 4;

/// The properties of an object, as a table that is released on drop.
pub struct Properties(NonNull<ZendHashTable>);

impl Properties {
    /// Returns the properties as `json_encode` sees them. Returns `None` if the object has none.
    ///
    /// This can run PHP code: call it inside [`run_guarded`](super::run_guarded).
    pub fn for_json(object: &Zval) -> Option<Self> {
        Self::of(object, JSON)
    }

    /// Returns all properties, as `(array) $object` does: the names of non-public properties begin
    /// with a NUL byte. Returns `None` if the object has no properties.
    ///
    /// This can run PHP code: call it inside [`run_guarded`](super::run_guarded).
    pub fn for_array(object: &Zval) -> Option<Self> {
        Self::of(object, ARRAY_CAST)
    }

    fn of(object: &Zval, purpose: i32) -> Option<Self> {
        if !object.is_object() {
            return None;
        }
        // SAFETY: the zval holds an object and is only read. The table comes with a
        // reference of our own.
        let table =
            unsafe { ffi::zend_get_properties_for(std::ptr::from_ref(object).cast_mut(), purpose) };
        NonNull::new(table).map(Self)
    }
}

impl Deref for Properties {
    type Target = ZendHashTable;

    fn deref(&self) -> &ZendHashTable {
        // SAFETY: our reference keeps the table alive.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Properties {
    /// `zend_release_properties`.
    fn drop(&mut self) {
        let table = self.0.as_ptr();
        // SAFETY: drops the reference that the constructor took; the last reference frees the
        // table.
        unsafe {
            if (*table).gc.u.type_info & GC_IMMUTABLE != 0 {
                return;
            }
            (*table).gc.refcount -= 1;
            if (*table).gc.refcount == 0 {
                zend_array_destroy(table);
            }
        }
    }
}
