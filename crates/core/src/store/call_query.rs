use std::time::Duration;

use super::{CallId, CallStatus, Timestamp};

/// Which calls somebody wants to see; what is none matches every call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallFilter {
    /// The id of the server.
    pub server: Option<String>,
    /// The tool's name.
    pub tool: Option<String>,
    /// On whose behalf.
    pub user: Option<String>,
    /// The call that made them.
    pub parent: Option<CallId>,
    /// How far they have come.
    pub status: Option<CallStatus>,
    /// Calls that came in at this moment or later.
    pub from: Option<Timestamp>,
    /// Calls that came in before this moment.
    pub until: Option<Timestamp>,
}

/// What is known of the calls of one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolStatistics {
    /// The id of the tool's server; none for a tool that needs none.
    pub server: Option<String>,
    /// The tool's name.
    pub tool: String,
    /// All calls, of whatever status.
    pub calls: u64,
    /// Those that ended well.
    pub succeeded: u64,
    /// Those that failed.
    pub failed: u64,
    /// Half of the calls whose duration is known took no longer than this.
    pub p50: Option<Duration>,
    /// 95 of 100 took no longer.
    pub p95: Option<Duration>,
    /// 99 of 100 took no longer.
    pub p99: Option<Duration>,
}

impl ToolStatistics {
    /// The share of those that ended well among those that ended well or failed, 0.0 to 1.0;
    /// none while there are none.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "a share needs no more than 52 bits"
    )]
    pub fn success_rate(&self) -> Option<f64> {
        let ended = self.succeeded + self.failed;
        (ended > 0).then(|| self.succeeded as f64 / ended as f64)
    }
}

/// How much of the call log is kept. Calls that have not ended are always kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retention {
    /// Calls older than this go.
    pub max_age: Option<Duration>,
    /// The oldest go when there are more calls than this.
    pub max_calls: Option<u64>,
    /// The oldest go when arguments, results and errors together have more bytes than this.
    pub max_bytes: Option<u64>,
}

/// What a clean-up has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// How many calls are gone.
    pub calls: u64,
}
