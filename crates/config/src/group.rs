use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// A group of the operating system, by name or by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Group {
    /// A group name, such as `www-data`.
    Name(String),
    /// A group ID, such as `33`.
    Id(u32),
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Id(id) => id.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for Group {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(GroupVisitor)
    }
}

struct GroupVisitor;

impl Visitor<'_> for GroupVisitor {
    type Value = Group;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name or id of a group")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Group, E> {
        if name.is_empty() {
            return Err(E::invalid_value(Unexpected::Str(name), &self));
        }
        Ok(Group::Name(name.to_owned()))
    }

    fn visit_i64<E: Error>(self, id: i64) -> Result<Group, E> {
        let id = u32::try_from(id);
        id.map(Group::Id)
            .map_err(|_| E::custom("the group id is out of range"))
    }
}
