use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{Deserialize, Deserializer, Error as _, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use toml::Value;
use toml::de::Error;

/// A TOML value that deserializes like a [`Value`], except that an array is rejected where a struct
/// is expected.
///
/// The code that serde derives accepts an array in place of every struct, so that `approvals = []`
/// would be accepted as a section without keys and result in the defaults.
pub(super) struct StrictValue(pub(super) Value);

impl<'de> Deserializer<'de> for StrictValue {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Table(table) => {
                let members = table.into_iter();
                let entries = members.map(|(key, value)| (key, Self(value)));
                visitor.visit_map(&mut MapDeserializer::new(entries))
            }
            Value::Array(values) => {
                visitor.visit_seq(&mut SeqDeserializer::new(values.into_iter().map(Self)))
            }
            value => value.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(_) => Err(Error::invalid_type(Unexpected::Seq, &"a table")),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

impl IntoDeserializer<'_, Error> for StrictValue {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Reads a value. An error contains the path of the invalid value.
pub(super) fn read<'de, T: Deserialize<'de>>(
    table: toml::Table,
) -> Result<T, serde_path_to_error::Error<Error>> {
    serde_path_to_error::deserialize(StrictValue(Value::Table(table)))
}
