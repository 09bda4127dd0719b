use serde::{Deserialize, Serialize};

use crate::{FaultyTool, UnavailableServer};

/// The answer of `GET /readyz`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Readiness {
    /// `ready`; `starting` until every MCP server was asked for its tools; `draining` while the
    /// sidecar stops; `store_gone` while the file of the store is deleted or replaced.
    pub status: String,
    /// The MCP servers that failed when they were last asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable_servers: Vec<UnavailableServer>,
    /// Why records of calls cannot be written, where they could not the last time: calls fail then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_error: Option<String>,
    /// How the last reload of the configuration went, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reload: Option<ReloadReport>,
}

/// How a reload of the configuration went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReloadReport {
    /// When, in ISO 8601.
    pub at: String,
    /// Whether it is in force.
    pub success: bool,
    /// Why not: the file, the line, the key and what is wrong. What held before still does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The answer of `GET /api/v1/status`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Status {
    /// The sidecar's version.
    pub version: String,
    /// As in [`Readiness::status`].
    pub status: String,
    /// The id of its process.
    pub pid: u32,
    /// When it started, in ISO 8601.
    pub started_at: String,
    /// How long ago that was.
    pub uptime_seconds: u64,
    /// Connections that are open.
    pub connections: u64,
    /// HTTP requests since the start.
    pub requests: u64,
    /// Tools that are known now.
    pub tools_known: usize,
    /// Calls of tools, all together.
    pub calls: CallCounts,
    /// Each tool that was called since the start, the most called first.
    pub tools: Vec<ToolStatus>,
    /// The MCP servers, as they were last seen.
    pub servers: Vec<ServerStatus>,
    /// The files of the folder of sandboxed tools that are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faulty_tools: Vec<FaultyTool>,
    /// Why records of calls cannot be written, where they could not the last time: calls fail then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_error: Option<String>,
    /// The process.
    pub process: ProcessStatus,
    /// How the last reload of the configuration went, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reload: Option<ReloadReport>,
    /// What tells the sidecar's store from others: an id that the store keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_id: Option<String>,
}

/// Calls of tools since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CallCounts {
    /// That have not ended.
    pub in_flight: u64,
    /// Number of calls in flight that hold one of the `executor.max_concurrent_total` slots.
    #[serde(default)]
    pub running: u64,
    /// Of those, that wait for one.
    #[serde(default)]
    pub queued: u64,
    /// That ended.
    pub total: u64,
    /// Of those, that did not end well.
    pub failed: u64,
}

/// One tool's calls since the start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolStatus {
    /// Its name.
    pub name: String,
    /// Calls that ended.
    pub calls: u64,
    /// Of those, that did not end well.
    pub failed: u64,
    /// Half of them took no longer, in milliseconds; an estimate.
    pub p50_ms: Option<f64>,
    /// Of a hundred, 99 took no longer.
    pub p99_ms: Option<f64>,
}

/// One MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServerStatus {
    /// Its label.
    pub label: String,
    /// `available`, `unavailable` or `not asked yet`.
    pub state: String,
    /// The tools that it offers.
    pub tools: usize,
    /// Why it is unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What the system says of the process; null where it does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProcessStatus {
    /// Memory in use.
    pub resident_bytes: Option<u64>,
    /// File descriptors that are open.
    pub open_descriptors: Option<u64>,
    /// As many may be.
    pub most_descriptors: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Time on a processor since the start.
    pub processor_seconds: Option<f64>,
}
