use serde::{Deserialize, Serialize};

use crate::JsonObject;

/// The answer of `GET /api/v1/packs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PackList {
    /// Always true.
    pub success: bool,
    /// The packs, in the order in which they are offered.
    pub packs: Vec<PackEntry>,
}

/// A pack: what belongs together of tools, resources, streams and things that it keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PackEntry {
    /// Its name.
    pub name: String,
    /// The names of its tools, as far as they are there for the client.
    pub tools: Vec<String>,
    /// The templates (RFC 6570) of its resources' URIs.
    pub resources: Vec<String>,
    /// The names of its event streams.
    pub streams: Vec<String>,
    /// What it keeps, by kind.
    pub keeps: Vec<KeptKind>,
}

/// Things of one kind that a pack keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeptKind {
    /// The kind, such as `scenes`, which stands behind the pack's name in its path.
    pub kind: String,
    /// How many there are.
    #[cfg_attr(feature = "openapi", schema(minimum = 0))]
    pub number: u64,
    /// How many there may be; absent where there may be any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 4_294_967_295_i64, format = Int64))]
    pub most: Option<u32>,
}

/// The answer of `GET /api/v1/packs/{pack}/{kind}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeptList {
    /// Always true.
    pub success: bool,
    /// What is kept, by name.
    pub kept: Vec<KeptEntry>,
    /// What to send as `after` for those that follow; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Something that a pack keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeptEntry {
    /// Its name, which stands percent-encoded at the end of its path.
    pub name: String,
    /// What is known of it: of a scene `messages` and `last_message_at`.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub facts: JsonObject,
}

/// The answer of `DELETE /api/v1/packs/{pack}/{kind}/{name}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeptRemoved {
    /// Always true.
    pub success: bool,
    /// The name of what is gone.
    pub removed: String,
}
