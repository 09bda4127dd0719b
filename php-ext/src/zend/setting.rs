use std::ffi::{CStr, c_int, c_void};
use std::panic::catch_unwind;

use ext_php_rs::ffi::{zend_ini_entry, zend_string};
use ext_php_rs::flags::IniEntryPermission;
use ext_php_rs::types::ZendStr;
use ext_php_rs::zend::{IniEntryDef, ModuleEntry};

use super::ffi;

/// The stage at which `ini_set()` changes a setting (`ZEND_INI_STAGE_RUNTIME`).
const STAGE_RUNTIME: c_int = 1 << 4;

/// Checks a value of a setting. The error describes the valid values.
pub type SettingCheck = fn(value: &str) -> Result<(), &'static str>;

/// Reports that a setting's value was rejected, with a description of the valid values.
pub type RejectionReport = fn(name: &str, value: &str, expected: &str);

/// Returns the engine's table entry for one of the extension's ini settings. `report` is called for
/// rejected values, except for those of `ini_set()`, where PHP reports the rejection.
pub const fn new_setting(
    name: &'static CStr,
    default: &'static CStr,
    permission: IniEntryPermission,
    check: SettingCheck,
    report: RejectionReport,
) -> IniEntryDef {
    let mut definition = IniEntryDef::new(name, default, permission);
    definition.on_modify = Some(on_modify);
    definition.mh_arg1 = check as *mut c_void;
    definition.mh_arg2 = report as *mut c_void;
    definition
}

/// Checks a new value of a setting. If the value is rejected, the previous value stays in effect.
unsafe extern "C" fn on_modify(
    entry: *mut zend_ini_entry,
    value: *mut zend_string,
    check_pointer: *mut c_void,
    report_pointer: *mut c_void,
    _: *mut c_void,
    stage: c_int,
) -> c_int {
    // SAFETY: the engine passes the entry that is changed, a string or null, and the values that
    // `new_setting` put into the table: a `SettingCheck` and a `RejectionReport`.
    let is_accepted = unsafe {
        let check: SettingCheck = std::mem::transmute(check_pointer);
        let report: RejectionReport = std::mem::transmute(report_pointer);
        let name_text = read_text((*entry).name);
        let value_text = read_text(value);
        // A panic is caught and counts as a rejected value, because a panic must not cross into C.
        catch_unwind(|| {
            let (Some(name), Some(value)) = (name_text, value_text) else {
                return false;
            };
            let outcome = check(value);
            if let Err(expected) = outcome
                && stage != STAGE_RUNTIME
            {
                report(name, value, expected);
            }
            outcome.is_ok()
        })
    };
    if is_accepted.unwrap_or(false) { 0 } else { -1 }
}

/// Returns the text of a setting's value. Null counts as empty; `None` means that the text is not
/// UTF-8.
unsafe fn read_text<'a>(text: *mut zend_string) -> Option<&'a str> {
    // SAFETY: the engine passed the pointer, which is null or points to a live string.
    match unsafe { text.cast::<ZendStr>().as_ref() } {
        Some(text) => std::str::from_utf8(text.as_bytes()).ok(),
        None => Some(""),
    }
}

/// Writes the table of the extension's settings into `phpinfo()`.
pub fn show_settings(module: *mut ModuleEntry) {
    // SAFETY: `module` is the engine's entry of this module.
    unsafe { ffi::display_ini_entries(module) };
}

/// Reads the current value of one of the extension's ini settings. Returns `None` at module
/// startup, when the setting has no value yet.
pub fn with_setting<R>(name: &CStr, read_value: impl FnOnce(&str) -> R) -> Option<R> {
    let mut exists = false;
    // SAFETY: the engine returns null or a string of the entry, which stays unchanged until PHP
    // code sets the entry again; `read_value` runs no PHP code.
    let value = unsafe {
        let pointer =
            ffi::zend_ini_string_ex(name.as_ptr(), name.count_bytes(), 0, &raw mut exists);
        (!pointer.is_null()).then(|| CStr::from_ptr(pointer))
    };
    value.map(|value| read_value(value.to_str().unwrap_or_default()))
}
