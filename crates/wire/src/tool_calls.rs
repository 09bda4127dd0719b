use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The record of one call of a tool. Times are in UTC, in the format of RFC 3339.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolCallEntry {
    /// The ID of the call: a UUID of version 7.
    pub id: String,
    /// The ID of the tool's MCP server; absent for a local tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_id: Option<String>,
    /// The name of the tool's MCP server, which is its label in the configuration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The tool's name.
    pub tool_name: String,
    /// The user on whose behalf the tool was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Whether the principal may act on behalf of the user. If false, `user` is an unverified claim
    /// of the principal.
    #[serde(default)]
    pub user_is_verified: bool,
    /// The authenticated principal that made the call: a token or a user of the sidecar's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The interface through which the call arrived, such as `rest`, `mcp` or `chat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The arguments, with the redactions of the call log.
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub arguments: Box<RawValue>,
    /// The arguments after their repair, if a model wrote arguments that did not match the tool's
    /// schema; redacted like `arguments`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub repaired_arguments: Option<Box<RawValue>>,
    /// The arguments with which the tool ran, if an approver changed them; redacted like
    /// `arguments`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub approved_arguments: Option<Box<RawValue>>,
    /// The status of the call: `pending`, `running`, `success`, `error`, `cancelled`, `interrupted`
    /// or `denied`.
    pub status: String,
    /// Whether the call returned a cached result, so that the tool did not run.
    #[serde(default)]
    pub cached: bool,
    /// The time at which the call arrived.
    pub started_at: String,
    /// The time at which the call ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    /// The duration for which the tool ran, in milliseconds; absent if the tool did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
    /// The result, with the redactions of the call log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub result: Option<Box<RawValue>>,
    /// The error message of a failed call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The error code of a failed call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The ID of the composed tool's call that made this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
}

/// The response to `GET /api/v1/tool-calls`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolCallList {
    /// Always true.
    pub success: bool,
    /// The calls, newest first.
    pub calls: Vec<ToolCallEntry>,
    /// The value of `after` that requests the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The response to `GET /api/v1/tool-calls/{id}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolCallResponse {
    /// Always true.
    pub success: bool,
    /// The call.
    pub call: ToolCallEntry,
}

/// The response to `GET /api/v1/tool-calls/statistics`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolCallStatistics {
    /// Always true.
    pub success: bool,
    /// The statistics of each tool.
    pub tools: Vec<ToolUsage>,
}

/// The statistics of the calls of one tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolUsage {
    /// The ID of the tool's MCP server; absent for a local tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_id: Option<String>,
    /// The name of the tool's MCP server, which is its label in the configuration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The tool's name.
    pub tool_name: String,
    /// Number of calls, of any status.
    pub calls: u64,
    /// Number of successful calls.
    pub succeeded: u64,
    /// Number of failed calls.
    pub failed: u64,
    /// The share of successful calls among the successful and failed calls, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_rate: Option<f64>,
    /// Median duration, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    /// 95th percentile of the duration, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<f64>,
    /// 99th percentile of the duration, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
}
