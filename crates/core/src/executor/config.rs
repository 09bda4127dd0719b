use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use super::fair_queue::Bounds;
use super::{ApprovalRules, CacheConfig};
use crate::registry::RegisteredTool;

/// How an [`Executor`](super::Executor) runs its calls.
///
/// ```
/// use std::time::Duration;
/// use pillion_core::executor::ExecutorConfig;
/// let config = ExecutorConfig { timeout: Duration::from_secs(5), ..ExecutorConfig::default() };
/// assert_eq!(config.max_concurrent.get(), 5);
/// ```
#[derive(Debug, Clone)]
pub struct ExecutorConfig {
    /// How long a call may take from the moment that nothing but its turn is in its way (C2):
    /// it waits for a place and runs. Default 30 s.
    pub timeout: Duration,
    /// Other times for single tools, by name. A tool that is not among them may have one of its own
    /// ([`Tool::time_limit`](crate::tool::Tool::time_limit)), at most `timeout`.
    pub tool_timeouts: HashMap<String, Duration>,
    /// Maximum number of concurrent calls of one source: of each MCP server, so that a slow server
    /// does not delay other servers, and of local tools, which belong to no MCP server. Default 5.
    pub max_concurrent: NonZeroUsize,
    /// Maximum number of concurrent calls of local tools. `None`, the default, means
    /// `max_concurrent`.
    pub max_concurrent_local: Option<NonZeroUsize>,
    /// Maximum number of concurrent calls of single MCP servers, by label; overrides
    /// `max_concurrent`.
    pub server_concurrency: HashMap<String, NonZeroUsize>,
    /// Maximum number of concurrent calls of all sources together. MCP servers together have one
    /// slot less: one slot is reserved for local tools. Default 20.
    pub max_concurrent_total: NonZeroUsize,
    /// Fewer at once of single tools, by name: with 1 the calls of a tool run one after the
    /// other, those of one user in the order in which they came. Tools that make calls are
    /// not held to it.
    pub tool_concurrency: HashMap<String, NonZeroUsize>,
    /// How long a call waits for one of those places before it ends as `unavailable`, at most
    /// `timeout`. Default 30 s.
    pub queue_timeout: Duration,
    /// Maximum number of queued calls of all users. When the queue is full, either the new call
    /// ends as `rate_limited`, or the newest queued call of the heaviest user does, or else that of
    /// the busiest server. Servers take turns, and the users of each server take turns. Default
    /// 1,000.
    pub max_queued: usize,
    /// The largest output, as JSON, in bytes; of a failure that says more, or has a larger
    /// result, there is the beginning. Default 16 MiB.
    pub max_output_bytes: usize,
    /// A larger result is put aside ([`Spill`](super::Spill)), and the caller gets its
    /// beginning; of a larger failure (and larger than 2 KiB) there is only that. None by
    /// default.
    pub max_result_bytes: Option<usize>,
    /// The same for single tools, by name.
    pub tool_result_bytes: HashMap<String, usize>,
    /// Which results are kept and given again.
    pub cache: CacheConfig,
    /// Rate limits (C7). None by default.
    pub rate_limits: RateLimits,
    /// Which calls need approval (G1, G2).
    pub approvals: ApprovalRules,
}

impl Default for ExecutorConfig {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            tool_timeouts: HashMap::new(),
            max_concurrent: NonZeroUsize::new(5).unwrap_or(NonZeroUsize::MIN),
            max_concurrent_local: None,
            server_concurrency: HashMap::new(),
            max_concurrent_total: NonZeroUsize::new(20).unwrap_or(NonZeroUsize::MIN),
            tool_concurrency: HashMap::new(),
            queue_timeout: Duration::from_secs(30),
            max_queued: 1_000,
            max_output_bytes: 16 * 1024 * 1024,
            max_result_bytes: None,
            tool_result_bytes: HashMap::new(),
            cache: CacheConfig::default(),
            rate_limits: RateLimits::default(),
            approvals: ApprovalRules::default(),
        }
    }
}

impl ExecutorConfig {
    /// Sets the maximum number of concurrent calls of one source, and of all sources. `None` keeps
    /// the current value, but a total that is not given is at least four times `of_source`, so that
    /// one source cannot take every slot.
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use pillion_core::executor::ExecutorConfig;
    /// let config = ExecutorConfig::default().with_concurrency(NonZeroUsize::new(8), None);
    /// assert_eq!((config.max_concurrent.get(), config.max_concurrent_total.get()), (8, 32));
    /// let config = ExecutorConfig::default().with_concurrency(None, NonZeroUsize::new(64));
    /// assert_eq!((config.max_concurrent.get(), config.max_concurrent_total.get()), (5, 64));
    /// ```
    #[must_use]
    pub fn with_concurrency(
        self,
        of_source: Option<NonZeroUsize>,
        total: Option<NonZeroUsize>,
    ) -> Self {
        let of_source = of_source.unwrap_or(self.max_concurrent);
        let fourfold = of_source.saturating_add(of_source.get().saturating_mul(3));
        Self {
            max_concurrent: of_source,
            max_concurrent_total: total.unwrap_or(fourfold.max(self.max_concurrent_total)),
            ..self
        }
    }

    /// The smallest of the limits that hold for every server and for local tools.
    pub(super) fn calls_at_once(&self) -> NonZeroUsize {
        let local = self.max_concurrent_local.unwrap_or(self.max_concurrent);
        let source = self.max_concurrent.min(local);
        source.min(self.max_concurrent_total)
    }

    pub(super) fn timeout_of(&self, tool: &RegisteredTool) -> Duration {
        let own = self.tool_timeouts.get(tool.name().as_str()).copied();
        own.unwrap_or_else(|| {
            let limit = tool.tool().time_limit();
            limit.map_or(self.timeout, |limit| limit.min(self.timeout))
        })
    }

    pub(super) fn bounds(&self) -> Bounds {
        let of_source = self.max_concurrent;
        let local = self.max_concurrent_local.unwrap_or(of_source);
        let places = self.max_concurrent_total.get();
        Bounds {
            places,
            local_places: local.get(),
            server_places: of_source.get(),
            places_of_servers: self.server_concurrency.clone(),
            tool_places: self.tool_concurrency.clone(),
            account_places: places,
            most_waiting: self.max_queued,
        }
    }

    pub(super) fn max_result_bytes_of(&self, tool: &str) -> Option<usize> {
        let own = self.tool_result_bytes.get(tool).copied();
        own.or(self.max_result_bytes)
    }
}

/// Which rate limits hold (C7). Each counts per user; calls that name no user count as one.
#[derive(Debug, Clone, Default)]
pub struct RateLimits {
    /// For each tool that `tools` does not name.
    pub every_tool: RateWindows,
    /// For single tools, by name; in place of `every_tool`.
    pub tools: HashMap<String, RateWindows>,
    /// For all tools of one MCP server together, by the server's label; beside the limit
    /// of the tool.
    pub servers: HashMap<String, RateWindows>,
}

/// At most so many calls in any minute, hour and day. An absent number is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateWindows {
    /// Calls in any 60 seconds.
    pub per_minute: Option<u32>,
    /// Calls in any 60 minutes.
    pub per_hour: Option<u32>,
    /// Calls in any 24 hours.
    pub per_day: Option<u32>,
}
