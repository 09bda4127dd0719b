use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::UnavailableServer;

/// Response body of `GET /api/v1/servers/{id}/resources`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResourceList {
    /// Always true.
    pub success: bool,
    /// The resources as the server sent them: `uri`, `name` and other fields of MCP.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub resources: Vec<Box<RawValue>>,
    /// The number of resources.
    pub total: usize,
    /// This server and the reason, if it could not list its resources; otherwise absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable_servers: Vec<UnavailableServer>,
}

/// Response body of `GET /api/v1/servers/{id}/resources/read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResourceResponse {
    /// Always true.
    pub success: bool,
    /// The first content of the resource; empty if the server returned none.
    pub content: String,
    /// The MIME type of `content`, if the server sent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The encoding of `content`: `base64` if the content is binary; absent for text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// The other contents of the resource, as the server sent them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub other_contents: Vec<Value>,
}
