use serde::{Deserialize, Serialize};

use crate::JsonObject;

/// The response body if no tool ran. The HTTP status is 200 for an unknown tool, and an error
/// status for any other failure.
///
/// ```
/// use pillion_wire::Failure;
/// let failure = Failure::new("not_found", "No such route").detail("path", "/nope".into());
/// assert!(!failure.success);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Failure {
    /// Always false.
    pub success: bool,
    /// The tool that the request named, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The error message.
    pub error: String,
    /// The error code: `invalid_input`, `not_found`, `rate_limited`, `timeout`,
    /// `approval_required`, `denied`, `unavailable`, `cancelled` or `internal_error`.
    pub error_code: String,
    /// Details about the failure. An unknown tool has `available_tools`, and also
    /// `unavailable_servers` if the tool may belong to an unavailable MCP server.
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub details: JsonObject,
}

impl Failure {
    /// Creates a failure without a tool and without details.
    #[must_use]
    pub fn new(error_code: impl Into<String>, error: impl Into<String>) -> Self {
        Self {
            success: false,
            tool: None,
            error: error.into(),
            error_code: error_code.into(),
            details: JsonObject::new(),
        }
    }

    /// Sets the tool that the request named.
    #[must_use]
    pub fn for_tool(mut self, tool: impl Into<String>) -> Self {
        self.tool = Some(tool.into());
        self
    }

    /// Adds one detail.
    #[must_use]
    pub fn detail(mut self, key: impl Into<String>, value: serde_json::Value) -> Self {
        self.details.insert(key.into(), value);
        self
    }
}
