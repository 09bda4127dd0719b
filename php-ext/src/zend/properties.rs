use std::ops::Deref;
use std::ptr::NonNull;

use ext_php_rs::ffi::{GC_IMMUTABLE, zend_array_destroy};
use ext_php_rs::types::{ZendHashTable, Zval};

use super::ffi;

/// `ZEND_PROP_PURPOSE_JSON`: the properties as `json_encode` sees them.
const JSON: i32 = 4;

/// The properties of an object, as a table that is given back when this is dropped.
pub struct Properties(NonNull<ZendHashTable>);

impl Properties {
    /// The properties as `json_encode` sees them; `None` when the object has none.
    ///
    /// This can run PHP code: call it inside [`guarded`](super::guarded).
    pub fn for_json(object: &Zval) -> Option<Self> {
        debug_assert!(object.is_object());
        // SAFETY: the zval holds an object and is only read. The table comes with a
        // reference of our own.
        let table =
            unsafe { ffi::zend_get_properties_for(std::ptr::from_ref(object).cast_mut(), JSON) };
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
        // SAFETY: drops the reference that `for_json` got; the last one frees the table.
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
