//! The layer on Zend's C API: classes with typed properties, their methods, objects with
//! Rust state, calls into PHP. Nearly all `unsafe` of the extension is in here.
//!
//! `ext-php-rs` gives the bindings, `Zval`, strings, hash tables and the guards around
//! panics and bail-outs. Its class macros are not used, because with them properties are
//! not truly readonly, a native class cannot inherit from a native class, and a parameter
//! cannot have a union type (see `docs/adr`).

mod call;
mod callback;
mod class;
mod failure;
mod ffi;
mod interrupt;
mod log;
mod object;
mod setting;
mod state;
mod types;

pub use call::{Call, Outcome};
pub use callback::{call_callable, call_method, guarded, has_method, take_exception};
pub use class::{Class, ClassSlot, Method, Parameter, Property};
pub use failure::{Failure, Thrown};
pub use ffi::{
    JSON_PURPOSE, json_serializable, properties_for, release_properties, runtime_exception,
};
pub use interrupt::{check_interrupt, must_stop, note_interrupt, noted_interrupt};
pub use log::write_log;
pub use object::{
    array_of, bool_of, empty_array, entries, list_of, new_object, object_value, read_property,
    set_property, string_of, undefined, with_entry, without_entry,
};
pub use setting::setting;
pub use state::{State, StateClass, construct, new_with_state, state_of};
pub use types::Type;
