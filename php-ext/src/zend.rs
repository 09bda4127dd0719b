//! The layer on top of Zend's C API: classes with typed properties, their methods, objects with
//! Rust state, and calls into PHP. This module contains nearly all `unsafe` code of the extension.
//!
//! `ext-php-rs` provides the bindings, `Zval`, strings, hash tables and the guards against panics
//! and bail-outs. Its class macros are not used, because their properties are not truly readonly, a
//! native class cannot inherit from a native class, and a parameter cannot have a union type (see
//! `docs/adr`).

/// Adds methods to a [`Class`]: each is declared as in PHP, and runs a Rust function.
macro_rules! methods {
    ($class:expr, $($declaration:expr => $body:expr),+ $(,)?) => {
        $class$(.method($declaration, $body))+
    };
}
pub(crate) use methods;

mod call;
mod callback;
mod class;
mod class_slot;
mod declaration;
pub mod exception_class;
mod failure;
mod ffi;
mod guard;
mod hold;
mod interrupt;
mod log;
mod nesting;
mod object;
mod properties;
mod setting;
mod state;
mod static_property;
mod table;
mod throw;
mod types;
mod value;
mod web_client;

pub use call::{MethodBody, MethodCall};
pub use callback::{call_callable, call_with_named_arguments, is_callable};
pub use class::{AttributeTargets, Class};
pub use class_slot::ClassSlot;
pub use declaration::Parameter;
pub use failure::{ExceptionData, Failure, Outcome, Result};
pub use ffi::{iterator, json_serializable, runtime_exception};
pub use guard::run_guarded;
pub use hold::hold_value;
pub use interrupt::{
    check_interrupt, has_small_stack, note_interrupt, should_stop, take_noted_interrupt,
};
pub use log::write_log;
pub use nesting::{is_nested, is_too_deep, too_deep_message};
pub use object::{Object, create};
pub use properties::Properties;
pub use setting::{SettingCheck, new_setting, show_settings, with_setting};
pub use state::{HiddenValue, State, StateClass, construct, new_with_state, read_state};
pub use static_property::{set_static_property, static_property};
pub use table::{TableKey, entries, is_list, item, member, slots};
pub use throw::{rethrow, take_exception};
pub use types::DeclaredType;
pub use value::{
    empty_array, escape_bytes, into_array, new_array, new_bool, new_float, new_int, new_list,
    new_string, to_float, try_new_list, type_name, undefined_value, with_entries, with_entry,
    without_entry,
};
