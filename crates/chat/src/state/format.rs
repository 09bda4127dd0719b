use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The version of the serialized state.
const FORMAT_VERSION: u32 = 1;

/// Serializes as [`FORMAT_VERSION`]. Deserializing fails for any other number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StateFormat;

impl Serialize for StateFormat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(FORMAT_VERSION)
    }
}

impl<'de> Deserialize<'de> for StateFormat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u32::deserialize(deserializer)? {
            FORMAT_VERSION => Ok(Self),
            version => Err(D::Error::custom(format!(
                "the chat's format {version} is not supported: expected format {FORMAT_VERSION}"
            ))),
        }
    }
}

/// Serializes a provider by name.
pub(super) mod provider {
    use pillion_providers::Provider;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::state) fn serialize<S: Serializer>(
        provider: &Provider,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(provider.as_str())
    }

    pub(in crate::state) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Provider, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(D::Error::custom)
    }
}
