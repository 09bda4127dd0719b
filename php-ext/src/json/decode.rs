use std::fmt;

use ext_php_rs::types::{ZendHashTable, ZendObject, ZendStr, Zval};
use ext_php_rs::{boxed::ZBox, convert::IntoZval};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::zend::{
    Failure, bool_of, empty_array, float_of, int_of, run_guarded, should_stop, string_of, table_of,
};

/// The PHP value for `{}`, and for an object with the keys `0`, `1`, `2` and so on, which a PHP
/// array cannot distinguish from a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyObject {
    /// The value is an array, as `json_decode($json, true)` returns it. For values that PHP code
    /// reads.
    Array,
    /// The value is a `stdClass`. For values that PHP code sends on as JSON, so that a map stays a
    /// map.
    StdClass,
}

/// Converts JSON text to a PHP value. Objects become associative arrays; keys and numbers are
/// converted as by `json_decode($json, true)` (an integer beyond 64 bits becomes a float).
///
/// # Errors
/// A failure of PHP's engine. The inner result holds the syntax error of the JSON, because only the
/// caller knows which exception applies.
pub fn decode(json: &str, empty: EmptyObject) -> Result<serde_json::Result<Zval>, Failure> {
    run_guarded(|| {
        let mut reader = serde_json::Deserializer::from_str(json);
        let value = Seed::new(empty).deserialize(&mut reader)?;
        reader.end()?;
        Ok(value)
    })
}

/// Converts a JSON tree to a PHP value.
///
/// # Errors
/// A failure of PHP's engine.
pub fn decode_value(value: &Value, empty: EmptyObject) -> Result<Zval, Failure> {
    decode_tree(value, Seed::new(empty))
}

/// Converts arguments to a PHP value without loss. A map that would become a list as an array
/// becomes a `stdClass`, except for the arguments themselves. An integer beyond 64 bits becomes a
/// string of its digits, because a float would change the number.
///
/// # Errors
/// A failure of PHP's engine.
pub fn decode_exactly(value: &Value) -> Result<Zval, Failure> {
    let seed = Seed {
        keeps_digits: true,
        is_root_array: true,
        ..Seed::new(EmptyObject::StdClass)
    };
    decode_tree(value, seed)
}

fn decode_tree(value: &Value, seed: Seed) -> Result<Zval, Failure> {
    run_guarded(|| seed.deserialize(value))?
        .map_err(|error: serde_json::Error| Failure::error(error.to_string()))
}

#[derive(Clone, Copy)]
struct Seed {
    empty: EmptyObject,
    /// Whether integers beyond 64 bits become strings.
    keeps_digits: bool,
    /// Whether a map at this level becomes an array, even if `empty` requires a `stdClass`.
    is_root_array: bool,
}

impl Seed {
    fn new(empty: EmptyObject) -> Self {
        Self {
            empty,
            keeps_digits: false,
            is_root_array: false,
        }
    }

    /// Returns the seed for the values that a value contains.
    fn inner(self) -> Self {
        Self {
            is_root_array: false,
            ..self
        }
    }

    fn makes_objects(self) -> bool {
        self.empty == EmptyObject::StdClass && !self.is_root_array
    }
}

impl<'de> DeserializeSeed<'de> for Seed {
    type Value = Zval;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Zval, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed {
    type Value = Zval;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Zval, E> {
        Ok(Zval::new())
    }

    fn visit_bool<E>(self, yes: bool) -> Result<Zval, E> {
        Ok(bool_of(yes))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Zval, E> {
        Ok(int_of(number))
    }

    #[expect(clippy::cast_precision_loss, reason = "as json_decode does")]
    fn visit_u64<E: Error>(self, number: u64) -> Result<Zval, E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            Err(_) if self.keeps_digits => Ok(string_of(number.to_string())),
            Err(_) => self.visit_f64(number as f64),
        }
    }

    fn visit_f64<E>(self, number: f64) -> Result<Zval, E> {
        Ok(float_of(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Zval, E> {
        Ok(string_of(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Zval, A::Error> {
        let Some(first) = list.next_element_seed(self.inner())? else {
            return Ok(empty_array());
        };
        let mut table = ZendHashTable::new();
        push::<A::Error>(&mut table, first)?;
        while let Some(element) = list.next_element_seed(self.inner())? {
            push::<A::Error>(&mut table, element)?;
        }
        Ok(table_of(table))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Zval, A::Error> {
        let Some(first) = map.next_key_seed(KeySeed)? else {
            return match self.makes_objects() {
                false => Ok(empty_array()),
                true => object_of(&ZendHashTable::new()).map_err(A::Error::custom),
            };
        };
        let mut table = ZendHashTable::new();
        let may_be_list = self.makes_objects() && first.as_bytes() == b"0";
        let mut next = Some(first);
        while let Some(key) = next {
            let value = map.next_value_seed(self.inner())?;
            table.insert(&*key, value).map_err(A::Error::custom)?;
            check_must_stop::<A::Error>()?;
            next = map.next_key_seed(KeySeed)?;
        }
        if may_be_list && table.has_sequential_keys() {
            return object_of(&table).map_err(A::Error::custom);
        }
        Ok(table_of(table))
    }
}

/// Returns a `stdClass` with these properties.
fn object_of(members: &ZendHashTable) -> ext_php_rs::error::Result<Zval> {
    let mut object = ZendObject::new_stdclass();
    for (key, value) in members {
        object.set_property(&key.to_string(), value.shallow_clone())?;
    }
    object.into_zval(false)
}

fn push<E: Error>(table: &mut ZendHashTable, element: Zval) -> Result<(), E> {
    table.push(element).map_err(E::custom)?;
    check_must_stop()
}

fn check_must_stop<E: Error>() -> Result<(), E> {
    if should_stop() {
        return Err(E::custom("the engine stops"));
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
