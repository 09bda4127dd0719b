use serde::{Deserialize, Serialize};

use crate::{InvalidTool, UnavailableServer};

/// Response body of `GET /readyz`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Readiness {
    /// The readiness: `ready`; `starting` until the first discovery of the MCP servers' tools has
    /// ended; `draining` during shutdown; `store_gone` while the store's file is deleted or
    /// replaced; `store_unavailable` while the store cannot be written.
    pub status: String,
    /// The MCP servers whose last tool listing failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable_servers: Vec<UnavailableServer>,
    /// The reason why the last write to the call log failed; calls fail while the call log cannot
    /// be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_error: Option<String>,
    /// The result of the last reload of the configuration, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reload: Option<ReloadReport>,
}

/// The result of a reload of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReloadReport {
    /// The time of the reload, in ISO 8601.
    pub at: String,
    /// Whether the new configuration is in effect.
    pub success: bool,
    /// The reason why the reload failed, with the file, the line, the key and the problem. The
    /// previous configuration stays in effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Response body of `GET /api/v1/status`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Status {
    /// The sidecar's version.
    pub version: String,
    /// The readiness, as in [`Readiness::status`].
    pub status: String,
    /// The process ID.
    pub pid: u32,
    /// The time at which the sidecar started, in ISO 8601.
    pub started_at: String,
    /// The number of seconds since the sidecar started.
    pub uptime_seconds: u64,
    /// The number of open connections.
    pub connections: u64,
    /// The number of HTTP requests since the sidecar started.
    pub requests: u64,
    /// The number of registered tools.
    pub tools_discovered: usize,
    /// The numbers of calls of all tools.
    pub calls: CallCounts,
    /// The tools that were called since the sidecar started, most called first.
    pub tools: Vec<ToolStatus>,
    /// The MCP servers and their last known state.
    pub servers: Vec<ServerStatus>,
    /// The invalid files in the folder of sandboxed (WebAssembly) tools, and the tools whose calls
    /// are rejected because of their schemas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid_tools: Vec<InvalidTool>,
    /// The reason why the last write to the call log failed; calls fail while the call log cannot
    /// be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_error: Option<String>,
    /// The resource usage of the sidecar's process.
    pub process: ProcessStatus,
    /// The result of the last reload of the configuration, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reload: Option<ReloadReport>,
    /// The store's ID, which distinguishes this store from other stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_id: Option<String>,
}

/// Numbers of tool calls since the sidecar started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CallCounts {
    /// The number of calls in flight.
    pub in_flight: u64,
    /// The number of calls in flight that hold one of the `executor.max_concurrent_total` slots.
    #[serde(default)]
    pub running: u64,
    /// The number of calls in flight that wait for a slot.
    #[serde(default)]
    pub queued: u64,
    /// The number of finished calls.
    pub total: u64,
    /// The number of finished calls that did not succeed.
    pub failed: u64,
}

/// The calls of one tool since the sidecar started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolStatus {
    /// The tool's name.
    pub name: String,
    /// The number of finished calls.
    pub calls: u64,
    /// The number of finished calls that did not succeed.
    pub failed: u64,
    /// The estimated median duration of the calls, in milliseconds.
    pub p50_ms: Option<f64>,
    /// The estimated 99th percentile of the calls' duration, in milliseconds.
    pub p99_ms: Option<f64>,
}

/// The status of one MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServerStatus {
    /// The server's label.
    pub label: String,
    /// The status of the connection: `disconnected`, `connecting`, `connected` or `error`.
    pub status: String,
    /// The number of tools that the server offers.
    pub tools: usize,
    /// The reason why the last tool listing failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The resource usage of a process; null for values that the operating system does not report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProcessStatus {
    /// The resident memory, in bytes.
    pub resident_bytes: Option<u64>,
    /// The number of open file descriptors.
    pub open_descriptors: Option<u64>,
    /// The maximum number of open file descriptors.
    pub max_descriptors: Option<u64>,
    /// The number of threads.
    pub threads: Option<u64>,
    /// The processor time since the sidecar started, in seconds.
    pub cpu_seconds: Option<f64>,
}
