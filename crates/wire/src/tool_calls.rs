use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One call of a tool as the sidecar has recorded it (requirement F4). Times are RFC 3339, in
/// UTC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolCallEntry {
    /// Its id: a UUID of version 7.
    pub id: String,
    /// The id of the tool's MCP server; absent for a local tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_id: Option<String>,
    /// The name of the tool's MCP server, which is its label in the configuration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The tool's name.
    pub tool_name: String,
    /// On whose behalf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Which door the call came through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The arguments, without what the rules of the call log take out.
    pub arguments: Value,
    /// `pending`, `running`, `success`, `error`, `cancelled`, `interrupted` or `denied`.
    pub status: String,
    /// Whether a kept result answered it, and its tool did not run.
    #[serde(default)]
    pub cached: bool,
    /// When it came in.
    pub started_at: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    /// How long the tool ran, in milliseconds; absent when it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
    /// The result, without what the rules take out.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub result: Value,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The same as a code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The id of the call that made this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
}

/// The answer of `GET /api/v1/tool-calls`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolCallList {
    /// Always true.
    pub success: bool,
    /// The calls, the newest first.
    pub calls: Vec<ToolCallEntry>,
    /// What to send as `after` for those that follow; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The answer of `GET /api/v1/tool-calls/{id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolCallAnswer {
    /// Always true.
    pub success: bool,
    /// The call.
    pub call: ToolCallEntry,
}

/// The answer of `GET /api/v1/tool-calls/statistics`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolCallStatistics {
    /// Always true.
    pub success: bool,
    /// Tool by tool.
    pub tools: Vec<ToolUse>,
}

/// What is known of the calls of one tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolUse {
    /// The id of the tool's MCP server; absent for a local tool, and for a server that was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_id: Option<String>,
    /// The name of the tool's MCP server, which is its label in the configuration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The tool's name.
    pub tool_name: String,
    /// All calls, of whatever status.
    pub calls: u64,
    /// Those that ended well.
    pub succeeded: u64,
    /// Those that failed.
    pub failed: u64,
    /// The share of those that ended well among those that ended well or failed, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_rate: Option<f64>,
    /// Half of the calls took no longer, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    /// 95 of 100 took no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<f64>,
    /// 99 of 100 took no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
}
