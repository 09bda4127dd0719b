#![expect(
    clippy::disallowed_methods,
    reason = "the encoder holds arrays and objects while PHP code can run: counting every other value \
        would take longer than encoding it"
)]

use std::cell::{Cell, RefCell};

use ext_php_rs::ffi::IS_UNDEF;
use ext_php_rs::flags::{ClassFlags, DataType};
use ext_php_rs::types::{ZendHashTable, Zval};
use serde::ser::{Error, Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::MAX_DEPTH;
use crate::zend::exception_class::invalid_input;
use crate::zend::{
    Failure, Object, Properties, Result, TableKey, is_list, json_serializable, run_guarded, slots,
};

/// A PHP value that serde can serialize by the rules of `json_encode`: lists become arrays, other
/// arrays become objects, objects become the result of `jsonSerialize()` or their public
/// properties, and backed enums become their values. A float keeps its fraction: `1.0`, not `1`.
struct PhpValue<'a> {
    value: &'a Zval,
    state: &'a EncoderState,
}

/// The state of the conversion of one value: the current depth, and the PHP failure that caused a
/// serde error. A serde error itself can contain only text.
#[derive(Default)]
struct EncoderState {
    depth: Cell<usize>,
    failure: RefCell<Option<Failure>>,
}

/// Converts a PHP value to JSON text. An empty array becomes `{}`, because arguments are an object.
///
/// # Errors
/// An `InvalidInputException` for a value that JSON cannot represent: text that is not UTF-8, NAN
/// and INF, resources, closures, generators, enums without values, and more than 128 levels (or a
/// value that contains itself). An exception of `jsonSerialize()` is returned unchanged.
pub fn encode_arguments(arguments: &Zval) -> Result<Box<RawValue>> {
    if arguments.array().is_some_and(ZendHashTable::is_empty) {
        return Ok(RawValue::from_string("{}".to_owned()).unwrap_or_default());
    }
    // The text is not passed to `RawValue::from_string`, which would parse it again.
    encode_value("value", arguments, |php_value| {
        serde_json::value::to_raw_value(&php_value)
    })
}

/// Converts a PHP value to a JSON tree.
///
/// # Errors
/// The same errors as [`encode_arguments`].
pub fn to_value(value: &Zval) -> Result<Value> {
    to_value_as("value", value)
}

/// Converts a PHP value to a JSON tree like [`to_value`]. Error messages call the value
/// `value_name`, such as `argument $options`.
///
/// # Errors
/// The same errors as [`to_value`].
pub fn to_value_as(value_name: &str, value: &Zval) -> Result<Value> {
    encode_value(value_name, value, |php_value| {
        serde_json::to_value(php_value)
    })
}

fn encode_value<R>(
    value_name: &str,
    value: &Zval,
    serialize: impl FnOnce(PhpValue<'_>) -> Result<R, serde_json::Error>,
) -> Result<R> {
    let state = EncoderState::default();
    let outcome = serialize(PhpValue {
        value,
        state: &state,
    });
    if let Some(failure) = state.failure.take() {
        return Err(failure);
    }
    outcome.map_err(|error| invalid_input(format!("The {value_name} is not JSON: {error}")))
}

impl EncoderState {
    fn wrap<'a>(&'a self, value: &'a Zval) -> PhpValue<'a> {
        PhpValue { value, state: self }
    }

    /// Runs `serialize` with the depth increased by one.
    fn with_nesting<R, E: Error>(&self, serialize: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        let depth = self.depth.get() + 1;
        if depth > MAX_DEPTH {
            return Err(E::custom(format_args!(
                "the value nests deeper than {MAX_DEPTH} levels, or contains itself"
            )));
        }
        self.depth.set(depth);
        let outcome = serialize();
        self.depth.set(depth - 1);
        outcome
    }

    fn fail<E: Error>(&self, failure: Failure) -> E {
        self.failure.replace(Some(failure));
        E::custom("PHP code threw an exception during the conversion to JSON")
    }
}

impl Serialize for PhpValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = self.value.dereference();
        if let Some(text) = value.zend_str() {
            return serializer.serialize_str(to_utf8::<S::Error>(text.as_bytes())?);
        }
        if let Some(number) = value.long() {
            return serializer.serialize_i64(number);
        }
        if let Some(table) = value.array() {
            // The additional reference keeps the array alive, because PHP code in `jsonSerialize()`
            // may release the array that is being serialized.
            let _array_reference = value.shallow_clone();
            return self
                .state
                .with_nesting(|| self.serialize_table(table, serializer));
        }
        if let Some(boolean) = value.bool() {
            return serializer.serialize_bool(boolean);
        }
        if let Some(number) = value.double() {
            if !number.is_finite() {
                return Err(S::Error::custom("the value contains NAN or INF"));
            }
            return serializer.serialize_f64(number);
        }
        if value.is_object() {
            // The additional reference keeps the object alive, because PHP code in
            // `jsonSerialize()` may release the object, or replace it in its container.
            let object_reference = value.shallow_clone();
            return self
                .state
                .with_nesting(|| self.serialize_object(&object_reference, serializer));
        }
        if value.is_resource() {
            return Err(S::Error::custom("the value contains a resource"));
        }
        serializer.serialize_unit()
    }
}

impl PhpValue<'_> {
    fn serialize_table<S: Serializer>(
        &self,
        table: &ZendHashTable,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        if is_list(table) {
            let mut list = serializer.serialize_seq(Some(table.len()))?;
            for (_, value) in slots(table) {
                list.serialize_element(&self.state.wrap(value))?;
            }
            return list.end();
        }
        let mut map = serializer.serialize_map(Some(table.len()))?;
        for (key, value) in slots(table) {
            self.serialize_entry::<S>(&mut map, key, value)?;
        }
        map.end()
    }

    fn serialize_entry<S: Serializer>(
        &self,
        map: &mut S::SerializeMap,
        key: TableKey<'_>,
        value: &Zval,
    ) -> Result<(), S::Error> {
        let php_value = &self.state.wrap(value);
        match key.zend_str() {
            Some(name) => map.serialize_entry(to_utf8::<S::Error>(name.as_bytes())?, php_value),
            None => map.serialize_entry(&key.long().unwrap_or_default().to_string(), php_value),
        }
    }

    fn serialize_object<S: Serializer>(
        &self,
        value: &Zval,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let Some(object) = Object::from_value(value) else {
            return serializer.serialize_unit();
        };
        if object.instance_of(json_serializable()) {
            let serializable = object
                .call("jsonSerialize", [])
                .map_err(|failure| self.state.fail::<S::Error>(failure))?;
            let returns_itself = Object::from_value(&serializable)
                .is_some_and(|serializable| serializable == object);
            if !returns_itself {
                return self.state.wrap(&serializable).serialize(serializer);
            }
        }
        let class = object.class();
        if matches!(object.class_name(), "Closure" | "Generator") {
            return Err(S::Error::custom(format_args!(
                "the value contains a {}",
                object.class_name()
            )));
        }
        if class.flags().contains(ClassFlags::Enum) {
            if class.enum_backing_type == IS_UNDEF {
                return Err(S::Error::custom("the value contains a non-backed enum"));
            }
            let backing_value = object
                .get(class, "value")
                .map_err(|failure| self.state.fail::<S::Error>(failure))?;
            return self.state.wrap(&backing_value).serialize(serializer);
        }
        let properties = run_guarded(|| Properties::for_json(value))
            .map_err(|failure| self.state.fail::<S::Error>(failure))?;
        match properties {
            Some(properties) => self.serialize_properties(&properties, serializer),
            None => serializer.serialize_map(Some(0))?.end(),
        }
    }

    /// Serializes the public properties of an object. Skips all other properties, whose names start
    /// with a NUL byte.
    fn serialize_properties<S: Serializer>(
        &self,
        table: &ZendHashTable,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in slots(table) {
            let is_hidden = key
                .zend_str()
                .is_some_and(|name| name.as_bytes().first() == Some(&0));
            let value = value.indirect().unwrap_or(value);
            let is_unset = value.get_type() == DataType::Undef;
            if !is_hidden && !is_unset {
                self.serialize_entry::<S>(&mut map, key, value)?;
            }
        }
        map.end()
    }
}

fn to_utf8<E: Error>(bytes: &[u8]) -> Result<&str, E> {
    std::str::from_utf8(bytes)
        .map_err(|_| E::custom("the value contains text that is not valid UTF-8"))
}
