use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A pin: the accepted definition of an MCP server's tool. Times are RFC 3339, in UTC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PinEntry {
    /// The label of the tool's MCP server.
    pub server: String,
    /// The user whose tool list the pin belongs to, if the server lists its tools per user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The tool's name on the server.
    pub tool: String,
    /// The status of the pin: `accepted`; `changed` if the server offers another definition;
    /// `renamed` if a tool with this or a similar definition was accepted under another name;
    /// `new` if the tool waits until it is accepted; or `rejected` if an operator has rejected the
    /// definition that the server offers.
    pub status: String,
    /// SHA-256 of the accepted definition; empty for a new tool.
    pub hash: String,
    /// The time at which the definition was accepted: when the sidecar first saw the definition, or
    /// when an operator accepted it. For a new tool, the time at which the sidecar first saw the
    /// tool.
    pub accepted_at: String,
    /// SHA-256 of the definition that the server offers, if that definition is not accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_hash: Option<String>,
    /// The time at which the sidecar first saw the definition that is not accepted, if there is
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_since: Option<String>,
    /// Warnings about hidden text in the newest definition, one per field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Response body of `GET /api/v1/pins`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PinList {
    /// Always true.
    pub success: bool,
    /// The pins, grouped by server in the order of the configuration.
    pub pins: Vec<PinEntry>,
}

/// Response body of `GET /api/v1/pins/{server}/{tool}` and of the requests that accept and
/// reject a definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PinResponse {
    /// Always true.
    pub success: bool,
    /// The pin.
    pub pin: PinEntry,
    /// The accepted definition; an empty object for a new tool.
    pub definition: Value,
    /// The differences between the accepted definition and the definition that the server offers
    /// now.
    pub changes: Vec<PinChange>,
}

/// One difference between two tool definitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PinChange {
    /// The path of the differing value: its keys, separated by dots.
    pub path: String,
    /// The value in the accepted definition; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The value in the definition that the server offers now; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Request body that accepts a definition. An empty body is also valid.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct AcceptPin {
    /// The hash of the definition that was reviewed. If set, a definition with another hash is not
    /// accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// Request body that rejects a definition. An empty body is also valid.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct RejectPin {
    /// The hash of the definition that was reviewed. If set, a definition with another hash is not
    /// rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}
