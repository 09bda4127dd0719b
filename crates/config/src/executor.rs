use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use pillion_builtins::calculator;
use pillion_core::executor::{
    ApprovalPolicy, CacheRule, CacheScope, ExecutorConfig, RateWindows, ToolSettings,
};
use serde::Deserialize;

use super::millis;
use super::network_tools::{CACHE_TTL, DEFAULT_TIMEOUT, TOOL_NAMES};

/// `[executor]`: limits of tool calls.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ExecutorSection {
    /// Timeout of a tool call, including the time in the queue.
    #[serde(rename = "timeout_ms", deserialize_with = "millis::read_positive")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = millis::MAX_MS)))]
    pub timeout: Duration,
    /// Maximum number of [concurrent calls](../how-to/limits.md#waiting) of one source: of each MCP
    /// server, and of local tools. `MCP_MAX_CONCURRENT_TOOLS` sets this key and
    /// `executor.max_concurrent_total`. Default: 5.
    pub max_concurrent: Option<NonZeroUsize>,
    /// Maximum number of concurrent calls of local tools, which belong to no MCP server. Default:
    /// `executor.max_concurrent`.
    pub max_concurrent_local: Option<NonZeroUsize>,
    /// Maximum number of concurrent calls of all sources together; one slot is reserved for local
    /// tools. Default: four times `executor.max_concurrent`, at least 20.
    pub max_concurrent_total: Option<NonZeroUsize>,
    /// Maximum time for which a call waits for a slot; after that time, the call fails
    /// with the error code `unavailable`.
    #[serde(rename = "queue_timeout_ms")]
    #[serde(deserialize_with = "millis::read_positive")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = millis::MAX_MS)))]
    pub queue_timeout: Duration,
    /// Maximum number of [queued calls](../how-to/limits.md#waiting). Queued calls of different MCP
    /// servers start in turn, and so do queued calls of different users of one server.
    pub max_queued: usize,
    /// Maximum size of a result that is returned to the caller in full, in bytes. A larger result
    /// is stored in [a file](../how-to/large-results.md), and the caller gets the beginning of the
    /// result.
    pub max_result_bytes: Option<NonZeroUsize>,
    /// Maximum size of a tool's output as JSON, in bytes; a larger output is an error.
    pub max_output_bytes: NonZeroUsize,
    /// The rate limit, per user, of each tool without a separate rate limit.
    pub rate_limit: RateLimitSection,
}

impl Default for ExecutorSection {
    fn default() -> Self {
        let defaults = ExecutorConfig::default();
        Self {
            timeout: defaults.timeout,
            max_concurrent: None,
            max_concurrent_local: None,
            max_concurrent_total: None,
            queue_timeout: defaults.queue_timeout,
            max_queued: defaults.max_queued,
            max_result_bytes: None,
            max_output_bytes: NonZeroUsize::new(defaults.max_output_bytes)
                .unwrap_or(NonZeroUsize::MIN),
            rate_limit: RateLimitSection::default(),
        }
    }
}

/// `[tools.NAME]`: settings of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ToolSection {
    /// Whether this section applies to every tool whose name equals the section's name, ignoring
    /// case. True if an environment variable set one of the section's keys, because the name of a
    /// variable does not show capital letters.
    #[serde(skip)]
    #[cfg_attr(test, schemars(skip))]
    pub is_case_insensitive: bool,
    /// Timeout of this tool. `MCP_CALCULATOR_TIMEOUT` and `MCP_SEARCH_TIMEOUT` set the timeouts of
    /// the calculator and of `web_search` in seconds. Default: `executor.timeout_ms`; 5000 for
    /// `calculator`, 10000 for `get_weather` and `web_search`.
    #[serde(rename = "timeout_ms")]
    #[serde(deserialize_with = "millis::read_optional_positive")]
    #[cfg_attr(test, schemars(with = "Option<u64>", range(min = 1, max = millis::MAX_MS)))]
    pub timeout: Option<Duration>,
    /// Maximum number of concurrent calls of this tool. With 1, the calls run one after the other,
    /// and calls of one user keep their order. Default: `executor.max_concurrent`.
    pub max_concurrent: Option<NonZeroUsize>,
    /// This tool's rate limit, per user. Default: `executor.rate_limit`.
    pub rate_limit: Option<RateLimitSection>,
    /// How long a result of this tool is [cached](../how-to/cached-results.md) for later calls with
    /// the same arguments; 0 disables the cache. Default: none; 300000 for `get_weather` and
    /// `web_search`.
    #[serde(rename = "cache_ttl_ms", deserialize_with = "millis::read_optional")]
    #[cfg_attr(test, schemars(with = "Option<u64>", range(min = 0, max = millis::MAX_MS)))]
    pub cache_ttl: Option<Duration>,
    /// Who gets a cached result: only the user of the first call (`private`) or all users
    /// (`public`). Default: `private`; `public` for `get_weather` and `web_search`.
    #[cfg_attr(test, schemars(with = "Option<String>", extend("enum" = ["private", "public"])))]
    pub cache_scope: Option<CacheScope>,
    /// Maximum size of a result of this tool that is returned to the caller in full, in bytes.
    /// Default: `executor.max_result_bytes`.
    pub max_result_bytes: Option<NonZeroUsize>,
    /// Whether calls of this tool need approval: `never`, `always`, `prompt` or a policy of
    /// `[approvals]`. Overrides `[approvals]` and the setting of the tool's server. Default:
    /// `require_approval` of the tool's server, or else `approvals.policy`.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub require_approval: Option<ApprovalPolicy>,
}

impl ToolSection {
    /// Adds a setting of this section to `settings` for the tool `name`, if the setting is set.
    pub(super) fn apply_setting<T>(
        &self,
        settings: &mut ToolSettings<T>,
        name: &str,
        setting: Option<T>,
    ) {
        match setting {
            None => {}
            Some(setting) if self.is_case_insensitive => settings.insert_in_any_case(name, setting),
            Some(setting) => settings.insert(name.to_owned(), setting),
        }
    }
}

/// A rate limit: the maximum numbers of calls of one user in any minute, hour and day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RateLimitSection {
    /// Maximum number of calls in any 60 seconds. Default: no limit.
    pub per_minute: Option<NonZeroU32>,
    /// Maximum number of calls in any 60 minutes. Default: no limit.
    pub per_hour: Option<NonZeroU32>,
    /// Maximum number of calls in any 24 hours. Default: no limit.
    pub per_day: Option<NonZeroU32>,
}

impl From<RateLimitSection> for RateWindows {
    fn from(section: RateLimitSection) -> Self {
        Self {
            per_minute: section.per_minute.map(NonZeroU32::get),
            per_hour: section.per_hour.map(NonZeroU32::get),
            per_day: section.per_day.map(NonZeroU32::get),
        }
    }
}

impl ExecutorSection {
    /// Returns the executor's configuration, including the settings of individual tools.
    #[must_use]
    pub fn to_core(&self, tools: &BTreeMap<String, ToolSection>) -> ExecutorConfig {
        let mut config = ExecutorConfig {
            timeout: self.timeout,
            max_concurrent_local: self.max_concurrent_local,
            queue_timeout: self.queue_timeout,
            max_queued: self.max_queued,
            max_result_bytes: self.max_result_bytes.map(NonZeroUsize::get),
            max_output_bytes: self.max_output_bytes.get(),
            ..ExecutorConfig::default()
        }
        .with_concurrency(self.max_concurrent, self.max_concurrent_total);
        config.rate_limits.default = self.rate_limit.into();
        let timeouts = &mut config.tool_timeouts;
        timeouts.insert("calculator".to_owned(), calculator::DEFAULT_TIMEOUT);
        for name in TOOL_NAMES {
            let (ttl, scope) = (CACHE_TTL, CacheScope::Public);
            let cache_rules = &mut config.cache.tools;
            cache_rules.insert(name.to_owned(), CacheRule { ttl, scope });
            let tool_timeouts = &mut config.tool_timeouts;
            tool_timeouts.insert(name.to_owned(), DEFAULT_TIMEOUT);
        }
        for (name, tool) in tools {
            tool.apply_setting(&mut config.tool_timeouts, name, tool.timeout);
            tool.apply_setting(&mut config.tool_concurrency, name, tool.max_concurrent);
            let limit = tool.rate_limit.map(RateWindows::from);
            tool.apply_setting(&mut config.rate_limits.tools, name, limit);
            let default_rule = if tool.is_case_insensitive {
                config.cache.tools.remove_in_any_case(name)
            } else {
                config.cache.tools.remove(name)
            };
            let ttl = tool.cache_ttl.or(default_rule.map(|rule| rule.ttl));
            let rule = ttl.filter(|ttl| !ttl.is_zero()).map(|ttl| {
                let default_scope = default_rule.map(|rule| rule.scope).unwrap_or_default();
                let scope = tool.cache_scope.unwrap_or(default_scope);
                CacheRule { ttl, scope }
            });
            tool.apply_setting(&mut config.cache.tools, name, rule);
            let max_bytes = tool.max_result_bytes.map(NonZeroUsize::get);
            tool.apply_setting(&mut config.tool_result_bytes, name, max_bytes);
        }
        config
    }
}
