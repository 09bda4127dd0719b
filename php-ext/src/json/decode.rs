use std::fmt;

use ext_php_rs::types::{ZendHashTable, ZendObject, ZendStr, Zval};
use ext_php_rs::{boxed::ZBox, convert::IntoZval};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::zend::{
    Failure, Result, empty_array, into_array, new_bool, new_float, new_int, new_string,
    run_guarded, should_stop,
};

/// The type of the PHP value for a JSON object that would become a list as a PHP array: `{}`, or an
/// object with the keys `0`, `1`, `2` and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyObject {
    /// The value is an array, as `json_decode($json, true)` returns. Used for values that PHP code
    /// reads.
    Array,
    /// The value is a `stdClass`. Used for values that PHP code may encode as JSON again, so that a
    /// map stays a map.
    StdClass,
}

/// Converts JSON text to a PHP value. Objects become associative arrays; keys and numbers are
/// converted as by `json_decode($json, true)` (an integer beyond 64 bits becomes a float).
///
/// # Errors
/// A failure of the Zend engine, such as exhausted memory. The inner result contains the syntax
/// error of the JSON text, because only the caller knows which exception to throw.
pub fn decode(json: &str, empty_object: EmptyObject) -> Result<serde_json::Result<Zval>> {
    run_guarded(|| {
        let mut reader = serde_json::Deserializer::from_str(json);
        let value = ValueSeed::new(empty_object).deserialize(&mut reader)?;
        reader.end()?;
        Ok(value)
    })
}

/// Converts a JSON tree to a PHP value.
///
/// # Errors
/// A failure of the Zend engine, such as exhausted memory.
pub fn decode_value(value: &Value, empty_object: EmptyObject) -> Result<Zval> {
    decode_tree(value, ValueSeed::new(empty_object))
}

/// Converts arguments to a PHP value without loss. A map that a PHP array could not distinguish
/// from a list becomes a `stdClass`, except at the top level. An integer beyond 64 bits becomes a
/// string of its digits, because a float would change the number.
///
/// # Errors
/// A failure of the Zend engine, such as exhausted memory.
pub fn decode_exactly(value: &Value) -> Result<Zval> {
    let seed = ValueSeed {
        keeps_digits: true,
        is_root_array: true,
        ..ValueSeed::new(EmptyObject::StdClass)
    };
    decode_tree(value, seed)
}

fn decode_tree(value: &Value, seed: ValueSeed) -> Result<Zval> {
    run_guarded(|| seed.deserialize(value))?
        .map_err(|error: serde_json::Error| Failure::error(error.to_string()))
}

#[derive(Clone, Copy)]
struct ValueSeed {
    empty_object: EmptyObject,
    /// Whether integers beyond 64 bits become strings.
    keeps_digits: bool,
    /// Whether a map at this level becomes an array, even if `empty_object` requires a `stdClass`.
    is_root_array: bool,
}

impl ValueSeed {
    fn new(empty_object: EmptyObject) -> Self {
        Self {
            empty_object,
            keeps_digits: false,
            is_root_array: false,
        }
    }

    /// Returns the deserialization seed for the elements or members of a value.
    fn for_children(self) -> Self {
        Self {
            is_root_array: false,
            ..self
        }
    }

    fn needs_std_class(self) -> bool {
        self.empty_object == EmptyObject::StdClass && !self.is_root_array
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Zval;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Zval, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed {
    type Value = Zval;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Zval, E> {
        Ok(Zval::new())
    }

    fn visit_bool<E>(self, boolean: bool) -> Result<Zval, E> {
        Ok(new_bool(boolean))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Zval, E> {
        Ok(new_int(number))
    }

    #[expect(clippy::cast_precision_loss, reason = "as json_decode does")]
    fn visit_u64<E: Error>(self, number: u64) -> Result<Zval, E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            Err(_) if self.keeps_digits => Ok(new_string(number.to_string())),
            Err(_) => self.visit_f64(number as f64),
        }
    }

    fn visit_f64<E>(self, number: f64) -> Result<Zval, E> {
        Ok(new_float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Zval, E> {
        Ok(new_string(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Zval, A::Error> {
        let Some(first_element) = list.next_element_seed(self.for_children())? else {
            return Ok(empty_array());
        };
        let mut table = ZendHashTable::new();
        push_element::<A::Error>(&mut table, first_element)?;
        while let Some(element) = list.next_element_seed(self.for_children())? {
            push_element::<A::Error>(&mut table, element)?;
        }
        Ok(into_array(table))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Zval, A::Error> {
        let Some(first_key) = map.next_key_seed(KeySeed)? else {
            return if self.needs_std_class() {
                to_std_class(&ZendHashTable::new()).map_err(A::Error::custom)
            } else {
                Ok(empty_array())
            };
        };
        let mut table = ZendHashTable::new();
        let may_be_list = self.needs_std_class() && first_key.as_bytes() == b"0";
        let mut next_key = Some(first_key);
        while let Some(key) = next_key {
            let value = map.next_value_seed(self.for_children())?;
            table.insert(&*key, value).map_err(A::Error::custom)?;
            fail_if_stopping::<A::Error>()?;
            next_key = map.next_key_seed(KeySeed)?;
        }
        if may_be_list && table.has_sequential_keys() {
            return to_std_class(&table).map_err(A::Error::custom);
        }
        Ok(into_array(table))
    }
}

/// Returns a `stdClass` whose properties are the entries of `members`.
fn to_std_class(members: &ZendHashTable) -> ext_php_rs::error::Result<Zval> {
    let mut object = ZendObject::new_stdclass();
    for (key, value) in members {
        object.set_property(&key.to_string(), value.shallow_clone())?;
    }
    object.into_zval(false)
}

fn push_element<E: Error>(table: &mut ZendHashTable, element: Zval) -> Result<(), E> {
    table.push(element).map_err(E::custom)?;
    fail_if_stopping()
}

fn fail_if_stopping<E: Error>() -> Result<(), E> {
    if should_stop() {
        return Err(E::custom("PHP's engine stops the request"));
    }
    Ok(())
}

/// Deserializes the key of an object. When the key is inserted, a numeric key becomes an integer,
/// as in every PHP array.
struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = ZBox<ZendStr>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ZBox<ZendStr>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed {
    type Value = ZBox<ZendStr>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<ZBox<ZendStr>, E> {
        Ok(ZendStr::new(key, false))
    }
}
