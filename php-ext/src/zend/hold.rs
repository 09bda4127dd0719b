use std::ptr::NonNull;

use ext_php_rs::ffi::{GC_IMMUTABLE, zend_array_destroy};
use ext_php_rs::types::{ZendHashTable, Zval};

/// Returns a value with its own reference count. For a PHP reference, returns the value that the
/// reference contains. For the slot of a declared property, returns the property's value.
pub fn hold_value(value: &Zval) -> Zval {
    #![expect(
        clippy::disallowed_methods,
        reason = "the value is counted before anything else runs"
    )]
    // References are resolved twice, because the slot of a declared property can itself contain a
    // PHP reference.
    value.dereference().dereference().shallow_clone()
}

/// A hash table with its own reference count, which is released on drop. While the table is held,
/// the engine copies it before a write.
pub(super) struct HeldTable(NonNull<ZendHashTable>);

impl HeldTable {
    /// Takes over a reference to a table.
    ///
    /// # Safety
    /// The caller must own a reference to the table, unless the table is immutable.
    pub(super) unsafe fn from_raw(table: NonNull<ZendHashTable>) -> Self {
        Self(table)
    }

    pub(super) fn table(&self) -> &ZendHashTable {
        // SAFETY: the reference keeps the table alive.
        unsafe { self.0.as_ref() }
    }
}

/// # Safety
/// The table must be alive.
unsafe fn is_immutable(table: NonNull<ZendHashTable>) -> bool {
    // SAFETY: the flags are valid in every table.
    unsafe { (*table.as_ptr()).gc.u.type_info & GC_IMMUTABLE != 0 }
}

impl Drop for HeldTable {
    /// Releases the table, as `zend_array_release` does.
    fn drop(&mut self) {
        let table = self.0.as_ptr();
        // SAFETY: the value owns the reference that it drops; dropping the last reference frees the
        // table.
        unsafe {
            if is_immutable(self.0) {
                return;
            }
            (*table).gc.refcount -= 1;
            if (*table).gc.refcount == 0 {
                zend_array_destroy(table);
            }
        }
    }
}
