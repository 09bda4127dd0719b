use serde::{Deserialize, Serialize};

/// Response body of `GET` [`route::LIST_WORKERS`](crate::route::LIST_WORKERS).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkerList {
    /// Always true.
    pub success: bool,
    /// The connected workers, in the order of connection.
    pub workers: Vec<WorkerEntry>,
}

/// A worker: a process that offers its own tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkerEntry {
    /// The worker's ID, unique until the sidecar restarts.
    pub id: u64,
    /// The worker's name, chosen by the worker.
    pub name: String,
    /// The worker's process ID at the time of connection, if the operating system reports it.
    #[serde(default)]
    pub pid: Option<i32>,
    /// The names of the worker's tools.
    pub tools: Vec<String>,
    /// Whether the worker is busy: it is running a call, or does not accept calls.
    pub busy: bool,
    /// The number of calls that the worker has received.
    pub calls: u64,
}
