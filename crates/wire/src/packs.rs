use serde::{Deserialize, Serialize};

use crate::JsonObject;

/// Response body of `GET /api/v1/packs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PackList {
    /// Always true.
    pub success: bool,
    /// The packs, in the order in which the sidecar registered them.
    pub packs: Vec<PackEntry>,
}

/// A pack: tools, resources, event streams and stored entries that belong together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PackEntry {
    /// The pack's name.
    pub name: String,
    /// The names of the pack's tools that the client may use.
    pub tools: Vec<String>,
    /// The URI templates (RFC 6570) of the pack's resources.
    pub resources: Vec<String>,
    /// The names of the pack's event streams.
    pub streams: Vec<String>,
    /// The kinds of entries that the pack stores.
    pub stored_items: Vec<StoredItemKind>,
}

/// One kind of entry that a pack stores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoredItemKind {
    /// The kind's name, such as `scenes`; also the path segment after the pack's name.
    pub kind: String,
    /// The number of stored entries.
    #[cfg_attr(feature = "openapi", schema(minimum = 0))]
    pub count: u64,
    /// The maximum number of stored entries; absent if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 4_294_967_295_i64, format = Int64))]
    pub max: Option<u32>,
}

/// Response body of `GET /api/v1/packs/{pack}/{kind}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoredItemList {
    /// Always true.
    pub success: bool,
    /// The stored entries, ordered by name.
    pub items: Vec<StoredItemEntry>,
    /// The value of `after` that requests the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// An entry that a pack stores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoredItemEntry {
    /// The entry's name, which is also, percent-encoded, the last segment of the entry's path.
    pub name: String,
    /// Details of the entry, which depend on its kind; for a scene, `messages` and
    /// `last_message_at`.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub details: JsonObject,
}

/// Response body of `DELETE /api/v1/packs/{pack}/{kind}/{name}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoredItemRemoved {
    /// Always true.
    pub success: bool,
    /// The name of the removed entry.
    pub removed: String,
}
