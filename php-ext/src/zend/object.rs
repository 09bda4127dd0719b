use ext_php_rs::boxed::ZBox;
use ext_php_rs::ffi::{IS_ARRAY, IS_UNDEF, zend_empty_array};
use ext_php_rs::flags::ZvalTypeFlags;
use ext_php_rs::types::{ZendHashTable, ZendObject, ZendStr, Zval};
use ext_php_rs::zend::{ClassEntry, ExecutorGlobals};

use super::{Failure, ffi};

/// A new object of a class, without a call to its constructor.
pub fn new_object(class: &ClassEntry) -> Result<Zval, Failure> {
    let mut object = Zval::new();
    // SAFETY: the class is linked; on failure the zval is null and an exception pending.
    unsafe { ffi::object_init_ex(&raw mut object, std::ptr::from_ref(class).cast_mut()) };
    if object.is_object() {
        Ok(object)
    } else {
        Err(Failure::Pending)
    }
}

/// Sets a declared property, also a readonly one that has no value yet. A value of the
/// wrong type, or a second one for a readonly property, leaves an exception pending.
pub fn set_property(scope: &ClassEntry, object: &ZendObject, name: &str, mut value: Zval) {
    // SAFETY: engine objects are shared and mutated through raw pointers everywhere; the
    // engine copies the value and adds its own reference.
    unsafe {
        ffi::zend_update_property(
            std::ptr::from_ref(scope).cast_mut(),
            std::ptr::from_ref(object).cast_mut(),
            name.as_ptr().cast(),
            name.len(),
            &raw mut value,
        );
    }
}

/// Reads a declared property as code of class `scope` would.
///
/// # Errors
/// [`Failure::Pending`] when the property has no value yet.
pub fn read_property(scope: &ClassEntry, object: &ZendObject, name: &str) -> Result<Zval, Failure> {
    let mut room = Zval::new();
    // SAFETY: as above; the returned pointer is either `room` or the property's slot, and
    // is only read before anything else runs.
    let value = unsafe {
        ext_php_rs::ffi::zend_read_property(
            std::ptr::from_ref(scope).cast_mut(),
            std::ptr::from_ref(object).cast_mut(),
            name.as_ptr().cast(),
            name.len(),
            false,
            &raw mut room,
        )
        .as_ref()
    };
    if ExecutorGlobals::has_exception() {
        return Err(Failure::Pending);
    }
    Ok(value.map_or_else(Zval::new, |value| value.dereference().shallow_clone()))
}

/// Another reference to an object, as a value.
pub fn object_value(object: &ZendObject) -> Zval {
    let object = std::ptr::from_ref(object).cast_mut();
    let mut value = Zval::new();
    value.u1.type_info = ZvalTypeFlags::ObjectEx.bits();
    value.value.obj = object;
    // SAFETY: the object is alive; the value gives the reference back when it is dropped.
    unsafe { (*object).gc.refcount += 1 };
    value
}

/// A string value.
pub fn string_of(text: impl AsRef<[u8]>) -> Zval {
    let mut value = Zval::new();
    value.set_zend_string(ZendStr::new(text, false));
    value
}

/// `true` or `false`.
pub fn bool_of(yes: bool) -> Zval {
    let mut value = Zval::new();
    value.set_bool(yes);
    value
}

/// An associative array with these entries, in this order.
pub fn array_of<'a>(entries: impl IntoIterator<Item = (&'a str, Zval)>) -> Zval {
    let mut table = ZendHashTable::new();
    for (key, entry) in entries {
        insert(&mut table, key, entry);
    }
    table_value(table)
}

/// A copy of an array with one entry set, at its old place or at the end.
pub fn with_entry(array: &Zval, key: &str, entry: Zval) -> Zval {
    let mut table = array
        .array()
        .map_or_else(ZendHashTable::new, |table| table.to_owned());
    insert(&mut table, key, entry);
    table_value(table)
}

/// A copy of an array without one entry.
pub fn without_entry(array: &Zval, key: &str) -> Zval {
    let mut table = array
        .array()
        .map_or_else(ZendHashTable::new, |table| table.to_owned());
    table.remove(key);
    table_value(table)
}

/// A list.
pub fn list_of(entries: impl IntoIterator<Item = Zval>) -> Zval {
    let mut table = ZendHashTable::new();
    for entry in entries {
        // A push fails only when the next index overflows, which a list cannot reach.
        let _ = table.push(entry);
    }
    table_value(table)
}

/// The keys (an integer or a string each) and values of an array, in their order. Unlike
/// `ZendHashTable::iter` it takes keys that are not UTF-8.
pub fn entries(table: &ZendHashTable) -> impl Iterator<Item = (Zval, &Zval)> {
    let mut position = table.iter();
    std::iter::from_fn(move || position.next_zval())
}

fn insert(table: &mut ZendHashTable, key: &str, entry: Zval) {
    // An insert with a string key cannot fail: the engine bails out when memory is short.
    let _ = table.insert(key, entry);
}

fn table_value(table: ZBox<ZendHashTable>) -> Zval {
    let mut value = Zval::new();
    value.set_hashtable(table);
    value
}

/// The empty array that all of PHP shares: fit for the default of a property, which must
/// not be counted.
pub fn empty_array() -> Zval {
    let mut value = Zval::new();
    value.u1.type_info = IS_ARRAY;
    // Not reference-counted, so that nothing ever writes to it.
    value.value.arr = (&raw const zend_empty_array).cast_mut();
    value
}

/// No value at all: the state of a typed property before it is set.
pub fn undefined() -> Zval {
    let mut value = Zval::new();
    value.u1.type_info = IS_UNDEF;
    value
}
