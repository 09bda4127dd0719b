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

use super::DEPTH_LIMIT;
use crate::zend::exception_class::invalid_input;
use crate::zend::{
    Failure, Key, Object, Properties, is_list, json_serializable, run_guarded, slots,
};

/// A PHP value that serde can serialize by the rules of `json_encode`: lists become arrays, other
/// arrays become objects, objects become the result of `jsonSerialize()` or their public
/// properties, and backed enums become their values. A float keeps its fraction: `1.0`, not `1`.
struct Php<'a> {
    value: &'a Zval,
    pass: &'a EncodePass,
}

/// The state of converting one value: the current depth, and the failure behind a serde error,
/// which can carry only text.
#[derive(Default)]
struct EncodePass {
    depth: Cell<usize>,
    failure: RefCell<Option<Failure>>,
}

/// Converts a PHP value to JSON text. An empty array becomes `{}`, because arguments are an object.
///
/// # Errors
/// An `InvalidInputException` for a value that JSON cannot represent: text that is not UTF-8, NAN
/// and INF, resources, closures, generators, enums without values, and more than 128 levels (or a
/// value that contains itself). An exception of `jsonSerialize()` passes through.
pub fn encode_arguments(arguments: &Zval) -> Result<Box<RawValue>, Failure> {
    if arguments.array().is_some_and(ZendHashTable::is_empty) {
        return Ok(RawValue::from_string("{}".to_owned()).unwrap_or_default());
    }
    // The text is not parsed again, as `RawValue::from_string` would.
    run("value", arguments, |php| {
        serde_json::value::to_raw_value(&php)
    })
}

/// Converts a PHP value to a JSON tree.
///
/// # Errors
/// The failures of [`encode_arguments`].
pub fn to_value(value: &Zval) -> Result<Value, Failure> {
    to_value_as("value", value)
}

/// Converts a PHP value to a JSON tree like [`to_value`]. Error messages call the value `what`,
/// such as `argument $options`.
///
/// # Errors
/// The failures of [`to_value`].
pub fn to_value_as(what: &str, value: &Zval) -> Result<Value, Failure> {
    run(what, value, |php| serde_json::to_value(php))
}

fn run<R>(
    what: &str,
    value: &Zval,
    write: impl FnOnce(Php<'_>) -> Result<R, serde_json::Error>,
) -> Result<R, Failure> {
    let pass = EncodePass::default();
    let written = write(Php { value, pass: &pass });
    if let Some(failure) = pass.failure.take() {
        return Err(failure);
    }
    written.map_err(|error| invalid_input(format!("The {what} is not JSON: {error}")))
}

impl EncodePass {
    fn child<'a>(&'a self, value: &'a Zval) -> Php<'a> {
        Php { value, pass: self }
    }

    /// Runs `write` with the depth increased by one.
    fn nested<R, E: Error>(&self, write: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        let depth = self.depth.get() + 1;
        if depth > DEPTH_LIMIT {
            return Err(E::custom(format_args!(
                "it nests deeper than {DEPTH_LIMIT} levels, or contains itself"
            )));
        }
        self.depth.set(depth);
        let written = write();
        self.depth.set(depth - 1);
        written
    }

    fn fail<E: Error>(&self, failure: Failure) -> E {
        self.failure.replace(Some(failure));
        E::custom("PHP code failed")
    }
}

impl Serialize for Php<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = self.value.dereference();
        if let Some(text) = value.zend_str() {
            return serializer.serialize_str(utf8::<S::Error>(text.as_bytes())?);
        }
        if let Some(number) = value.long() {
            return serializer.serialize_i64(number);
        }
        if let Some(table) = value.array() {
            // The reference keeps the object alive: PHP code in `jsonSerialize()` may release the
            // array that contains the object.
            let _held = value.shallow_clone();
            return self.pass.nested(|| self.table(table, serializer));
        }
        if let Some(yes) = value.bool() {
            return serializer.serialize_bool(yes);
        }
        if let Some(number) = value.double() {
            if !number.is_finite() {
                return Err(S::Error::custom("it holds NAN or INF"));
            }
            return serializer.serialize_f64(number);
        }
        if value.is_object() {
            // The reference keeps the object alive: PHP code in `jsonSerialize()` may release the
            // object, or replace it in its container.
            let held = value.shallow_clone();
            return self.pass.nested(|| self.object(&held, serializer));
        }
        if value.is_resource() {
            return Err(S::Error::custom("it holds a resource"));
        }
        serializer.serialize_unit()
    }
}

impl Php<'_> {
    fn table<S: Serializer>(
        &self,
        table: &ZendHashTable,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        if is_list(table) {
            let mut list = serializer.serialize_seq(Some(table.len()))?;
            for (_, value) in slots(table) {
                list.serialize_element(&self.pass.child(value))?;
            }
            return list.end();
        }
        let mut map = serializer.serialize_map(Some(table.len()))?;
        for (key, value) in slots(table) {
            self.entry::<S>(&mut map, key, value)?;
        }
        map.end()
    }

    fn entry<S: Serializer>(
        &self,
        map: &mut S::SerializeMap,
        key: Key<'_>,
        value: &Zval,
    ) -> Result<(), S::Error> {
        let value = &self.pass.child(value);
        match key.zend_str() {
            Some(name) => map.serialize_entry(utf8::<S::Error>(name.as_bytes())?, value),
            None => map.serialize_entry(&key.long().unwrap_or_default().to_string(), value),
        }
    }

    fn object<S: Serializer>(&self, value: &Zval, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(object) = Object::from_value(value) else {
            return serializer.serialize_unit();
        };
        if object.instance_of(json_serializable()) {
            let shown = object
                .call("jsonSerialize", [])
                .map_err(|failure| self.pass.fail::<S::Error>(failure))?;
            let itself = Object::from_value(&shown).is_some_and(|shown| shown == object);
            if !itself {
                return self.pass.child(&shown).serialize(serializer);
            }
        }
        let class = object.class();
        if matches!(object.class_name(), "Closure" | "Generator") {
            return Err(S::Error::custom(format_args!(
                "it holds a {}",
                object.class_name()
            )));
        }
        if class.flags().contains(ClassFlags::Enum) {
            if class.enum_backing_type == IS_UNDEF {
                return Err(S::Error::custom("it holds an enum without values"));
            }
            let backing = object
                .get(class, "value")
                .map_err(|failure| self.pass.fail::<S::Error>(failure))?;
            return self.pass.child(&backing).serialize(serializer);
        }
        let properties = run_guarded(|| Properties::for_json(value))
            .map_err(|failure| self.pass.fail::<S::Error>(failure))?;
        match properties {
            Some(properties) => self.properties(&properties, serializer),
            None => serializer.serialize_map(Some(0))?.end(),
        }
    }

    /// Serializes the public properties of an object. The names of other properties start with a
    /// NUL byte.
    fn properties<S: Serializer>(
        &self,
        table: &ZendHashTable,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in slots(table) {
            let hidden = key
                .zend_str()
                .is_some_and(|name| name.as_bytes().first() == Some(&0));
            let value = value.indirect().unwrap_or(value);
            let unset = value.get_type() == DataType::Undef;
            if !hidden && !unset {
                self.entry::<S>(&mut map, key, value)?;
            }
        }
        map.end()
    }
}

fn utf8<E: Error>(bytes: &[u8]) -> Result<&str, E> {
    std::str::from_utf8(bytes).map_err(|_| E::custom("it holds text that is not valid UTF-8"))
}
