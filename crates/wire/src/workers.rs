use serde::{Deserialize, Serialize};

/// The answer to [`route::WORKERS`](crate::route::WORKERS).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkerList {
    /// Always true.
    pub success: bool,
    /// Everyone who is connected, the oldest first.
    pub workers: Vec<WorkerEntry>,
}

/// A process that offers tools of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkerEntry {
    /// Its number, in the life of this sidecar.
    pub id: u64,
    /// What it calls itself.
    pub name: String,
    /// Its process id when it connected, where the system tells.
    #[serde(default)]
    pub pid: Option<i32>,
    /// The names of its tools.
    pub tools: Vec<String>,
    /// Whether it runs a call, or takes none.
    pub busy: bool,
    /// How many calls it was given.
    pub calls: u64,
}
