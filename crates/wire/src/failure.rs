use serde::{Deserialize, Serialize};

use crate::JsonObject;

/// The body of every answer that ran no tool (requirement B5): an unknown tool comes with
/// HTTP status 200, everything else with the status that fits.
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
    /// The tool that was asked for, where the request got far enough to name one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// What went wrong, in words.
    pub error: String,
    /// What went wrong, from the fixed set: `invalid_input`, `not_found`, `rate_limited`,
    /// `timeout`, `approval_required`, `denied`, `unavailable`, `cancelled`,
    /// `internal_error`.
    pub error_code: String,
    /// More to go by; an unknown tool comes with `available_tools`, and with
    /// `unavailable_servers` where it may be one of theirs.
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub details: JsonObject,
}

impl Failure {
    /// A failure without a tool and without details.
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

    /// Names the tool that was asked for.
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
