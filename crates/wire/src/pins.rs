use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a tool of an MCP server is accepted to be. Times are RFC 3339, in UTC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PinEntry {
    /// The server's label.
    pub server: String,
    /// The user whom the server lists the tool for, where it lists its tools for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The tool's name there.
    pub tool: String,
    /// `accepted`, or `changed` where the server offers something else.
    pub status: String,
    /// SHA-256 of the accepted definition.
    pub hash: String,
    /// When it was accepted: first seen, or by an operator.
    pub accepted_at: String,
    /// SHA-256 of what the server offers instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_hash: Option<String>,
    /// When that was first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_since: Option<String>,
    /// What is hidden in the newest definition, place by place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The answer of `GET /api/v1/pins`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PinList {
    /// Always true.
    pub success: bool,
    /// The pins, server by server in the order of the configuration.
    pub pins: Vec<PinEntry>,
}

/// The answer of `GET /api/v1/pins/{server}/{tool}`, and of `accept`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PinAnswer {
    /// Always true.
    pub success: bool,
    /// The pin.
    pub pin: PinEntry,
    /// The accepted definition.
    pub definition: Value,
    /// What is otherwise in what the server offers now.
    pub changes: Vec<PinChange>,
}

/// One place where two definitions differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PinChange {
    /// The names that lead there, with dots between them.
    pub path: String,
    /// What stood there; absent if nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// What stands there now; absent if nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// What may stand in the body of `accept`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct AcceptPin {
    /// The hash of the definition that was looked at: another one is not accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}
