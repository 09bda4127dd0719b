//! Reads PHP arrays directly from memory. `ZendHashTable::iter` calls the engine four times for
//! each entry, which takes more time than all other steps of JSON encoding together.
//!
//! PHP code can free or replace the value in a PHP reference at any time: in a `jsonSerialize()`, a
//! `__toString()`, an autoloader, an error handler or a destructor. Therefore, all functions of
//! this module except [`slots`] return values with their own reference count, and `clippy.toml`
//! forbids the methods of `ext-php-rs` that return pointers into arrays and PHP references.

#![expect(
    clippy::disallowed_methods,
    reason = "these functions are what replaces the forbidden methods"
)]

use ext_php_rs::flags::DataType;
use ext_php_rs::types::{ZendHashTable, ZendStr, Zval};

use super::hold::hold_value;
use super::new_list;

/// The flag of a packed array (`u.flags`): a list of values without keys, possibly with holes.
const PACKED_FLAG: u32 = 1 << 2;

/// A key of an array.
#[derive(Clone, Copy)]
pub enum TableKey<'a> {
    /// An integer key.
    Index(i64),
    /// A string key, whose bytes need not be UTF-8.
    Name(&'a ZendStr),
}

impl<'a> TableKey<'a> {
    /// Returns the integer, if the key is an integer.
    pub fn long(self) -> Option<i64> {
        match self {
            Self::Index(index) => Some(index),
            Self::Name(_) => None,
        }
    }

    /// Returns the key as text; `None` if the key is not UTF-8.
    pub fn string(self) -> Option<String> {
        match self {
            Self::Index(index) => Some(index.to_string()),
            Self::Name(name) => name.as_str().ok().map(str::to_owned),
        }
    }

    /// Returns the string, if the key is a string.
    pub fn zend_str(self) -> Option<&'a ZendStr> {
        match self {
            Self::Index(_) => None,
            Self::Name(name) => Some(name),
        }
    }
}

/// Iterates over the keys and [held](hold_value) values of an array in order, without holes; any
/// other value has no entries. PHP code may run during the iteration: this function holds the
/// array, so that a write copies the array first.
pub fn entries(array: &Zval) -> impl Iterator<Item = (TableKey<'_>, Zval)> {
    let held_array = hold_value(array);
    array
        .array()
        .into_iter()
        .flat_map(slots)
        .map(move |(key, value)| {
            let _ = &held_array;
            (key, hold_value(value))
        })
}

/// Returns the [held](hold_value) value of a key, if `value` is an array that has the key.
pub fn member(value: &Zval, key: &str) -> Option<Zval> {
    value.array()?.get(key).map(hold_value)
}

/// Returns the [held](hold_value) value at an index, if `value` is an array that has the index.
pub fn item(value: &Zval, index: i64) -> Option<Zval> {
    value.array()?.get_index(index).map(hold_value)
}

/// Returns a callable without PHP references. PHP code that the engine runs for the call, such as
/// an autoloader or the method itself, could release the object or the name in
/// `[&$object, 'method']`.
pub(super) fn hold_callable(callable: Zval) -> Zval {
    let has_references = |table: &ZendHashTable| slots(table).any(|(_, part)| part.is_reference());
    if !callable.array().is_some_and(has_references) {
        return callable;
    }
    match (item(&callable, 0), item(&callable, 1)) {
        (Some(target), Some(method)) => new_list([target, method]),
        _ => callable,
    }
}

/// Iterates over the keys and values of an array in order, without holes, and without changing any
/// reference count. The caller must hold the array, and each value while PHP code can run. The
/// iterator returns the entries that exist when it reaches them.
pub fn slots(table: &ZendHashTable) -> impl Iterator<Item = (TableKey<'_>, &Zval)> {
    let mut position = 0;
    std::iter::from_fn(move || {
        while position < table.nNumUsed {
            let (key, value) = slot(table, position);
            position += 1;
            if value.get_type() != DataType::Undef {
                return Some((key, value));
            }
        }
        None
    })
}

/// Returns whether the keys of an array are 0, 1, 2 and so on, in this order (`array_is_list`).
pub fn is_list(table: &ZendHashTable) -> bool {
    if is_packed(table) && table.nNumUsed == table.nNumOfElements {
        return true;
    }
    slots(table)
        .zip(0..)
        .all(|((key, _), index)| key.long() == Some(index))
}

fn is_packed(table: &ZendHashTable) -> bool {
    // SAFETY: the flags are valid in every table.
    unsafe { table.u.flags & PACKED_FLAG != 0 }
}

/// Returns one slot of an array. `position`, the index of the slot, must be below `nNumUsed`.
fn slot(table: &ZendHashTable, position: u32) -> (TableKey<'_>, &Zval) {
    let index = position as usize;
    // SAFETY: a packed array has `nNumUsed` values, any other array has as many buckets (PHP 8.2
    // and later); a bucket's key is null or a string that lives as long as the bucket.
    unsafe {
        if is_packed(table) {
            let value = &*table.__bindgen_anon_1.arPacked.add(index);
            return (TableKey::Index(i64::from(position)), value);
        }
        let bucket = &*table.__bindgen_anon_1.arData.add(index);
        let key = match bucket.key.as_ref() {
            Some(name) => TableKey::Name(name),
            None => TableKey::Index(bucket.h.cast_signed()),
        };
        (key, &bucket.val)
    }
}
