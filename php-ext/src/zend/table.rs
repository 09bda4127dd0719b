//! Reads arrays directly from memory. `ZendHashTable::iter` calls the engine four times for each
//! entry, which costs more than all other work of writing JSON.

use ext_php_rs::flags::DataType;
use ext_php_rs::types::{ZendHashTable, ZendStr, Zval};

/// In `u.flags`: the array is a list of values without keys, possibly with holes.
const PACKED: u32 = 1 << 2;

/// A key of an array.
#[derive(Clone, Copy)]
pub enum Key<'a> {
    /// An integer.
    Index(i64),
    /// Bytes that need not be UTF-8.
    Name(&'a ZendStr),
}

impl<'a> Key<'a> {
    /// Returns the integer, if the key is one.
    pub fn long(self) -> Option<i64> {
        match self {
            Self::Index(index) => Some(index),
            Self::Name(_) => None,
        }
    }

    /// Returns the key as text. Returns `None` if it is not UTF-8.
    pub fn string(self) -> Option<String> {
        match self {
            Self::Index(index) => Some(index.to_string()),
            Self::Name(name) => name.as_str().ok().map(str::to_owned),
        }
    }

    /// Returns the name, if the key is one.
    pub fn zend_str(self) -> Option<&'a ZendStr> {
        match self {
            Self::Index(_) => None,
            Self::Name(name) => Some(name),
        }
    }
}

/// Iterates over the keys and values of an array in order, without holes. The array may change
/// during the iteration: the iterator returns the entries that exist when it reaches them.
pub fn entries(table: &ZendHashTable) -> impl Iterator<Item = (Key<'_>, &Zval)> {
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

/// Returns whether the keys are 0, 1, 2 and so on, in this order (`array_is_list`).
pub fn is_list(table: &ZendHashTable) -> bool {
    if is_packed(table) && table.nNumUsed == table.nNumOfElements {
        return true;
    }
    entries(table)
        .zip(0..)
        .all(|((key, _), index)| key.long() == Some(index))
}

fn is_packed(table: &ZendHashTable) -> bool {
    // SAFETY: the flags are valid in every table.
    unsafe { table.u.flags & PACKED != 0 }
}

/// Returns one slot of the table. The position must be below `nNumUsed`.
fn slot(table: &ZendHashTable, position: u32) -> (Key<'_>, &Zval) {
    let index = position as usize;
    // SAFETY: a packed table has `nNumUsed` values, any other as many buckets (PHP 8.2 and
    // later); a bucket's key is null or a string that lives as long as the bucket.
    unsafe {
        if is_packed(table) {
            let value = &*table.__bindgen_anon_1.arPacked.add(index);
            return (Key::Index(i64::from(position)), value);
        }
        let bucket = &*table.__bindgen_anon_1.arData.add(index);
        let key = match bucket.key.as_ref() {
            Some(name) => Key::Name(name),
            None => Key::Index(bucket.h.cast_signed()),
        };
        (key, &bucket.val)
    }
}
