use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// An entry as a whole. If an object has several members of one name, the last one counts.
pub(super) struct Whole {
    pub(super) value: Value,
    /// Whether an object has several members of one name. Readers disagree about which one counts.
    pub(super) is_ambiguous: bool,
}

impl Whole {
    /// # Errors
    /// If a value of the entry is outside of what JSON readers accept, such as `1e999`.
    pub(super) fn read(entry: &RawValue) -> serde_json::Result<Self> {
        let mut is_ambiguous = false;
        let mut reader = serde_json::Deserializer::from_str(entry.get());
        let value = Reader(&mut is_ambiguous).deserialize(&mut reader)?;
        Ok(Self {
            value,
            is_ambiguous,
        })
    }
}

/// Reads one value, and sets the flag if an object has several members of one name.
struct Reader<'a>(&'a mut bool);

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Reader(self.0))? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(Reader(self.0))?;
            *self.0 |= object.insert(name, value).is_some();
        }
        Ok(object.into())
    }
}
