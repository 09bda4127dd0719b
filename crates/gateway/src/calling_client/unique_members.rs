use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A JSON value in which no object has two members of one name.
///
/// JSON parsers differ in which of two such members they use, so a person who is shown one of them
/// does not know what a server reads.
#[derive(Debug)]
pub(super) struct UniqueMembers(pub(super) Value);

impl<'de> Deserialize<'de> for UniqueMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor).map(Self)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value whose objects have no two members of one name")
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

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(UniqueMembers(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some((name, UniqueMembers(value))) = members.next_entry::<String, _>()? {
            if values.contains_key(&name) {
                return Err(A::Error::custom(format!("two members are named '{name}'")));
            }
            values.insert(name, value);
        }
        Ok(values.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_members_of_one_name_are_rejected_at_any_depth() {
        for text in [
            r#"{"a":1,"a":2}"#,
            r#"[{"a":{"b":0,"b":0}}]"#,
            r#"{"a":1,"\u0061":1}"#,
        ] {
            assert!(
                serde_json::from_str::<UniqueMembers>(text).is_err(),
                "{text}"
            );
        }
        let text = r#"{"a":[null,true,-1,2,1.5,"x",{"a":{}}],"b":{"a":1}}"#;
        let UniqueMembers(value) = serde_json::from_str(text).unwrap();
        assert_eq!(value.to_string(), text);
    }
}
