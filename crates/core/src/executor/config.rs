use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;

use super::fair_queue::QueueLimits;
use super::{ApprovalRules, CacheConfig, ToolSettings};
use crate::registry::RegisteredTool;

/// The settings of an [`Executor`](super::Executor).
///
/// ```
/// use std::time::Duration;
/// use pillion_core::executor::ExecutorConfig;
/// let config = ExecutorConfig { timeout: Duration::from_secs(5), ..ExecutorConfig::default() };
/// assert_eq!(config.max_concurrent.get(), 5);
/// ```
#[derive(Debug, Clone)]
pub struct ExecutorConfig {
    /// Timeout of a call, from the time at which the call enters the queue until its tool has
    /// ended. Default 30 s.
    pub timeout: Duration,
    /// Timeouts of individual tools, by name. Other tools may define their own timeout
    /// ([`Tool::time_limit`](crate::tool::Tool::time_limit)), at most `timeout`.
    pub tool_timeouts: ToolSettings<Duration>,
    /// Maximum number of concurrent calls of one source: of each MCP server, so that a slow server
    /// does not delay other servers, and of local tools, which belong to no MCP server. Default 5.
    pub max_concurrent: NonZeroUsize,
    /// Maximum number of concurrent calls of local tools. `None`, the default, means
    /// `max_concurrent`.
    pub max_concurrent_local: Option<NonZeroUsize>,
    /// Maximum number of concurrent calls of individual MCP servers, by label; overrides
    /// `max_concurrent`.
    pub server_concurrency: HashMap<String, NonZeroUsize>,
    /// Maximum number of concurrent calls of all sources together. MCP servers together have one
    /// slot less: one slot is reserved for local tools. Default 20.
    pub max_concurrent_total: NonZeroUsize,
    /// Maximum number of concurrent calls of individual tools, by name, in addition to the limit of
    /// the tool's source. With 1, the calls of a tool run one after the other, and calls of one
    /// user keep their order. Ignored for tools that make calls.
    pub tool_concurrency: ToolSettings<NonZeroUsize>,
    /// Maximum time that a call waits for a slot before it ends as `unavailable`, at most
    /// `timeout`. Default 30 s.
    pub queue_timeout: Duration,
    /// Maximum number of queued calls of all users. When the queue is full, one call ends as
    /// `rate_limited`. That call is the newest queued call of the user with the most queued calls,
    /// if this user has at least two more queued calls than the user of the new call. Otherwise the
    /// same rule applies to servers. If neither rule selects a call, the new call ends. Servers
    /// take turns, and the users of each server take turns. Default 1,000.
    pub max_queued: usize,
    /// Maximum size of an output as JSON, in bytes. Longer error messages and results of failed
    /// calls are cut. Default 16 MiB.
    pub max_output_bytes: usize,
    /// Maximum size of a result, in bytes. Larger results are stored
    /// ([`ResultStore`](super::ResultStore)), and the caller gets the beginning. Results of failed
    /// calls that are larger than this maximum, and than 2 KiB, are cut. No maximum by default.
    pub max_result_bytes: Option<usize>,
    /// `max_result_bytes` of individual tools, by name.
    pub tool_result_bytes: ToolSettings<usize>,
    /// The settings of the result cache.
    pub cache: CacheConfig,
    /// Rate limits. None by default.
    pub rate_limits: RateLimits,
    /// Determines which calls need approval.
    pub approvals: ApprovalRules,
}

impl Default for ExecutorConfig {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            tool_timeouts: ToolSettings::default(),
            max_concurrent: NonZeroUsize::new(5).unwrap_or(NonZeroUsize::MIN),
            max_concurrent_local: None,
            server_concurrency: HashMap::new(),
            max_concurrent_total: NonZeroUsize::new(20).unwrap_or(NonZeroUsize::MIN),
            tool_concurrency: ToolSettings::default(),
            queue_timeout: Duration::from_secs(30),
            max_queued: 1_000,
            max_output_bytes: 16 * 1024 * 1024,
            max_result_bytes: None,
            tool_result_bytes: ToolSettings::default(),
            cache: CacheConfig::default(),
            rate_limits: RateLimits::default(),
            approvals: ApprovalRules::default(),
        }
    }
}

impl ExecutorConfig {
    /// Sets the maximum number of concurrent calls of one source, and of all sources. `None` keeps
    /// the current value. If `total` is `None`, the total is also raised to at least four times the
    /// maximum of one source, so that one source cannot take every slot.
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
        max_per_source: Option<NonZeroUsize>,
        total: Option<NonZeroUsize>,
    ) -> Self {
        let source_limit = max_per_source.unwrap_or(self.max_concurrent);
        let fourfold_limit = source_limit.saturating_add(source_limit.get().saturating_mul(3));
        Self {
            max_concurrent: source_limit,
            max_concurrent_total: total.unwrap_or(fourfold_limit.max(self.max_concurrent_total)),
            ..self
        }
    }

    /// Returns the smallest of three limits of concurrent calls: of one source, of local tools, and
    /// of all sources together. Ignores the limits of individual servers and tools.
    pub(super) fn max_concurrent_calls(&self) -> NonZeroUsize {
        let local_limit = self.max_concurrent_local.unwrap_or(self.max_concurrent);
        let source_limit = self.max_concurrent.min(local_limit);
        source_limit.min(self.max_concurrent_total)
    }

    /// Returns the timeout that is configured for the tool with this name.
    pub(super) fn configured_timeout(&self, name: &str) -> Option<Duration> {
        self.tool_timeouts.get(name).copied()
    }

    pub(super) fn timeout_of(&self, tool: &RegisteredTool) -> Duration {
        let own_timeout = self.configured_timeout(tool.name().as_str());
        own_timeout.unwrap_or_else(|| {
            let limit = tool.tool().time_limit();
            limit.map_or(self.timeout, |limit| limit.min(self.timeout))
        })
    }

    pub(super) fn bounds(&self) -> QueueLimits {
        let source_limit = self.max_concurrent;
        let local_limit = self.max_concurrent_local.unwrap_or(source_limit);
        let max_running = self.max_concurrent_total.get();
        QueueLimits {
            max_running,
            max_local: local_limit.get(),
            max_per_server: source_limit.get(),
            server_limits: self.server_concurrency.clone(),
            tool_limits: self.tool_concurrency.clone(),
            max_per_account: max_running,
            max_queued: self.max_queued,
        }
    }

    pub(super) fn max_tool_result_bytes(&self, tool: &str) -> Option<usize> {
        let own_max_bytes = self.tool_result_bytes.get(tool).copied();
        own_max_bytes.or(self.max_result_bytes)
    }
}

/// Rate limits. Each limit counts the calls of each [account](crate::tool::QuotaAccount)
/// separately.
#[derive(Debug, Clone, Default)]
pub struct RateLimits {
    /// The limits of each tool that is not in `tools`.
    pub default: RateWindows,
    /// The limits of individual tools, by name; override `default`.
    pub tools: ToolSettings<RateWindows>,
    /// The limits of all tools of one MCP server together, by the server's label. The limit of the
    /// tool applies too.
    pub servers: HashMap<String, RateWindows>,
}

/// Maximum numbers of calls in any minute, hour and day. An absent number means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct RateWindows {
    /// Maximum number of calls in any 60 seconds.
    pub per_minute: Option<u32>,
    /// Maximum number of calls in any 60 minutes.
    pub per_hour: Option<u32>,
    /// Maximum number of calls in any 24 hours.
    pub per_day: Option<u32>,
}
