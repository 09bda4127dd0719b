use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A JSON value, and whether all readers read the same value.
///
/// JSON parsers differ in which of two members with one name they use, so two readers of the same
/// JSON may read different values. Here, the last member counts.
///
/// ```
/// use pillion_mcp_client::WholeValue;
/// let whole: WholeValue = serde_json::from_str(r#"[{"a":1,"a":2}]"#)?;
/// assert!(whole.is_ambiguous);
/// assert_eq!(whole.value, serde_json::json!([{"a": 2}]));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct WholeValue {
    /// The parsed JSON value.
    pub value: Value,
    /// Whether an object at any depth has several members of one name.
    pub is_ambiguous: bool,
}

impl<'de> Deserialize<'de> for WholeValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut is_ambiguous = false;
        let value = WholeValueReader(&mut is_ambiguous).deserialize(deserializer)?;
        Ok(Self {
            value,
            is_ambiguous,
        })
    }
}

/// Deserializes one JSON value, and sets the flag if an object has several members of one name.
struct WholeValueReader<'a>(&'a mut bool);

impl<'de> DeserializeSeed<'de> for WholeValueReader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for WholeValueReader<'_> {
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
        while let Some(item) = items.next_element_seed(WholeValueReader(self.0))? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(WholeValueReader(self.0))?;
            *self.0 |= object.insert(name, value).is_some();
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_members_of_one_name_are_noticed_at_any_depth() {
        for text in [
            r#"{"a":1,"a":2}"#,
            r#"[{"a":{"b":0,"b":0}}]"#,
            r#"{"a":1,"\u0061":1}"#,
        ] {
            let whole: WholeValue = serde_json::from_str(text).unwrap();
            assert!(whole.is_ambiguous, "{text}");
        }
        let text = r#"{"a":[null,true,-1,2,1.5,"x",{"a":{}}],"b":{"a":1}}"#;
        let whole: WholeValue = serde_json::from_str(text).unwrap();
        assert!(!whole.is_ambiguous);
        assert_eq!(whole.value.to_string(), text);
    }
}
