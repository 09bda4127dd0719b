use std::ffi::CStr;

use super::ffi;

/// Reads the current value of one of the extension's ini settings.
pub fn with_setting<R>(name: &CStr, read: impl FnOnce(&str) -> R) -> R {
    let mut exists = false;
    // SAFETY: the engine returns null or a string of the entry, which stays as it is until
    // PHP code sets it anew; `read` runs none.
    let value = unsafe {
        let value = ffi::zend_ini_string_ex(name.as_ptr(), name.count_bytes(), 0, &raw mut exists);
        if value.is_null() {
            c""
        } else {
            CStr::from_ptr(value)
        }
    };
    read(value.to_str().unwrap_or_default())
}
