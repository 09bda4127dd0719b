//! Zend functions that `ext-php-rs` has no binding for, with safe wrappers.

use std::ffi::{c_char, c_int, c_void};

use ext_php_rs::ffi::{
    zend_atomic_bool, zend_class_entry, zend_object, zend_property_info, zend_string, zend_type,
};
use ext_php_rs::types::{ZendHashTable, Zval};
use ext_php_rs::zend::{ClassEntry, ModuleEntry};

unsafe extern "C" {
    pub(super) fn zend_declare_typed_property(
        class: *mut zend_class_entry,
        name: *mut zend_string,
        default: *mut Zval,
        flags: c_int,
        doc_comment: *mut zend_string,
        kind: zend_type,
    ) -> *mut zend_property_info;
    pub(super) fn zend_add_attribute(
        attributes: *mut *mut ZendHashTable,
        name: *mut zend_string,
        arguments: u32,
        flags: u32,
        offset: u32,
        line: u32,
    ) -> *mut c_void;
    pub(super) fn zend_internal_attribute_register(
        class: *mut zend_class_entry,
        targets: u32,
    ) -> *mut c_void;
    pub(super) fn zend_update_property(
        scope: *mut zend_class_entry,
        object: *mut zend_object,
        name: *const c_char,
        name_length: usize,
        value: *mut Zval,
    );
    pub(super) fn zend_read_static_property(
        scope: *mut zend_class_entry,
        name: *const c_char,
        name_length: usize,
        silent: bool,
    ) -> *mut Zval;
    pub(super) fn zend_update_static_property(
        scope: *mut zend_class_entry,
        name: *const c_char,
        name_length: usize,
        value: *mut Zval,
    ) -> c_int;
    pub(super) fn object_init_ex(target: *mut Zval, class: *mut zend_class_entry) -> c_int;

    pub(super) fn zend_parse_arg_bool_slow(arg: *mut Zval, target: *mut bool, number: u32) -> bool;
    pub(super) fn zend_parse_arg_long_slow(arg: *mut Zval, target: *mut i64, number: u32) -> bool;
    pub(super) fn zend_parse_arg_number_slow(
        arg: *mut Zval,
        target: *mut *mut Zval,
        number: u32,
    ) -> bool;
    pub(super) fn zend_parse_arg_str_slow(
        arg: *mut Zval,
        target: *mut *mut zend_string,
        number: u32,
    ) -> bool;
    pub(super) fn zend_argument_type_error(number: u32, format: *const c_char, ...);
    pub(super) fn zend_zval_type_name(value: *const Zval) -> *const c_char;

    pub(super) fn zend_is_unwind_exit(exception: *const zend_object) -> bool;
    pub(super) fn zend_is_graceful_exit(exception: *const zend_object) -> bool;
    pub(super) fn zend_clear_exception();
    pub(super) fn zend_timeout();
    pub(super) fn php_handle_aborted_connection();
    #[cfg(php_delayed_oom)]
    pub(super) fn zend_handle_delayed_oom();
    pub(super) fn zend_atomic_bool_load(flag: *const zend_atomic_bool) -> bool;

    pub(super) fn php_log_err_with_severity(message: *const c_char, severity: c_int);
    pub(super) fn zend_ini_string_ex(
        name: *const c_char,
        name_length: usize,
        original: c_int,
        exists: *mut bool,
    ) -> *const c_char;

    pub(super) fn zend_std_get_gc(
        object: *mut zend_object,
        table: *mut *mut Zval,
        count: *mut c_int,
    ) -> *mut ZendHashTable;

    pub(super) fn display_ini_entries(module: *mut ModuleEntry);

    pub(super) fn zend_get_properties_for(object: *mut Zval, purpose: c_int) -> *mut ZendHashTable;

    static php_json_serializable_ce: *mut zend_class_entry;
    static zend_ce_iterator: *mut zend_class_entry;
    static spl_ce_RuntimeException: *mut zend_class_entry;
}

/// Returns the interface `JsonSerializable`.
pub fn json_serializable() -> &'static ClassEntry {
    // SAFETY: the json extension is part of every PHP 8, is loaded before shared
    // extensions, and its class entries live as long as the process.
    unsafe { &*php_json_serializable_ce }
}

/// Returns the interface `Iterator`.
pub fn iterator() -> &'static ClassEntry {
    // SAFETY: the entry belongs to the engine, which registers it before any extension is loaded.
    unsafe { &*zend_ce_iterator }
}

/// Returns the class `RuntimeException`.
pub fn runtime_exception() -> &'static ClassEntry {
    // SAFETY: SPL is part of every PHP 8, is loaded before shared extensions, and its class entries
    // live as long as the process.
    unsafe { &*spl_ce_RuntimeException }
}
