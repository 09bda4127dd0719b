use std::ffi::CStr;

use super::ffi;

/// The current value of one of the extension's ini settings.
pub fn setting(name: &CStr) -> &'static str {
    let mut exists = false;
    // SAFETY: the engine returns a pointer into the entry or null. The value is used at
    // once by every caller, before PHP code can change it.
    unsafe {
        let value = ffi::zend_ini_string_ex(name.as_ptr(), name.count_bytes(), 0, &raw mut exists);
        if value.is_null() {
            return "";
        }
        CStr::from_ptr(value).to_str().unwrap_or("")
    }
}
