use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::UnavailableServer;

/// The answer of `GET /api/v1/servers/{id}/resources`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResourceList {
    /// Always true.
    pub success: bool,
    /// The resources as the server wrote them: `uri`, `name`, and what else MCP has.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub resources: Vec<Value>,
    /// How many there are.
    pub total: usize,
    /// The server, where it could not be asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable_servers: Vec<UnavailableServer>,
}

/// The answer of `GET /api/v1/servers/{id}/resources/read` (requirement F2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResourceAnswer {
    /// Always true.
    pub success: bool,
    /// What the resource holds; empty where the server gave nothing.
    pub content: String,
    /// Of which type that is, where the server says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// `base64` where the content is bytes; absent for text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// What the server gave beside the first, as it wrote it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub further: Vec<Value>,
}
