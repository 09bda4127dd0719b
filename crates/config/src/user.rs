use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected};

/// The name of a user of the operating system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User(pub String);

impl<'de> Deserialize<'de> for User {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        if name.is_empty() {
            return Err(D::Error::invalid_value(
                Unexpected::Str(&name),
                &"the name of a user",
            ));
        }
        Ok(Self(name))
    }
}
