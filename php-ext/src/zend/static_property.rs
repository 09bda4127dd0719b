use ext_php_rs::types::Zval;
use ext_php_rs::zend::ClassEntry;

use super::{ffi, hold_value};

/// Returns a declared static property, with the access rights of its class.
pub fn static_property(class: &ClassEntry, name: &str) -> Zval {
    // SAFETY: the engine returns the address of the property, or null with a pending exception; the
    // property is copied before other code runs.
    let value = unsafe {
        ffi::zend_read_static_property(
            std::ptr::from_ref(class).cast_mut(),
            name.as_ptr().cast(),
            name.len(),
            false,
        )
        .as_ref()
    };
    value.map_or_else(Zval::new, hold_value)
}

/// Sets a declared static property, which the engine releases at the end of the request.
pub fn set_static_property(class: &ClassEntry, name: &str, mut value: Zval) {
    // SAFETY: the engine copies the value and adds its own reference.
    unsafe {
        ffi::zend_update_static_property(
            std::ptr::from_ref(class).cast_mut(),
            name.as_ptr().cast(),
            name.len(),
            &raw mut value,
        );
    }
}
