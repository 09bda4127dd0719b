use std::time::Duration;

use super::{CallId, CallStatus, Timestamp};

/// Selects calls; `None` matches every call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallFilter {
    /// Only calls of tools of the MCP server with this name.
    pub server: Option<String>,
    /// Only calls of the tool with this name.
    pub tool: Option<String>,
    /// Only calls that run on behalf of this user.
    pub user: Option<String>,
    /// Only calls of verified users.
    pub only_verified: bool,
    /// Only nested calls that this call made.
    pub parent: Option<CallId>,
    /// Only calls with this status.
    pub status: Option<CallStatus>,
    /// Only calls that arrived at this time or later.
    pub from: Option<Timestamp>,
    /// Only calls that arrived before this time.
    pub until: Option<Timestamp>,
}

/// The property of calls by which statistics group them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallGrouping {
    /// The server and the tool.
    Tool,
    /// The server.
    Server,
    /// The user. Calls whose user a client only claims are a separate group.
    User,
}

/// Statistics of a group of calls. Only the properties by which the calls are grouped are set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallStatistics {
    /// The name of the MCP server; `None` for native tools.
    pub server: Option<String>,
    /// The name of the tool.
    pub tool: Option<String>,
    /// The user; `None` for calls without a user.
    pub user: Option<String>,
    /// Whether the user is verified.
    pub user_is_verified: bool,
    /// Number of all calls, whatever their status.
    pub calls: u64,
    /// Number of calls that succeeded.
    pub succeeded: u64,
    /// Number of calls that failed.
    pub failed: u64,
    /// Median duration of the calls whose duration is known.
    pub p50: Option<Duration>,
    /// 95th percentile of the durations of the calls whose duration is known.
    pub p95: Option<Duration>,
    /// 99th percentile of the durations of the calls whose duration is known.
    pub p99: Option<Duration>,
}

impl CallStatistics {
    /// Returns the share of successful calls among successful and failed calls, 0.0 to 1.0; `None`
    /// if no call has succeeded or failed.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "a share needs no more than 52 bits"
    )]
    pub fn success_rate(&self) -> Option<f64> {
        let ended_calls = self.succeeded + self.failed;
        (ended_calls > 0).then(|| self.succeeded as f64 / ended_calls as f64)
    }
}

/// Numbers of calls in one interval of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Number of all calls, whatever their status.
    pub calls: u64,
    /// Number of calls that failed.
    pub failed: u64,
}

/// Retention limits of the call log. Calls that have not ended are always kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retention {
    /// Maximum age of the calls that are kept.
    pub max_age: Option<Duration>,
    /// Maximum number of calls. The oldest calls are removed first.
    pub max_calls: Option<u64>,
    /// Maximum total size of arguments, results and errors, in bytes. The oldest calls are removed
    /// first.
    pub max_bytes: Option<u64>,
}

/// The outcome of pruning the call log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PruneOutcome {
    /// Number of removed calls.
    pub calls: u64,
}
