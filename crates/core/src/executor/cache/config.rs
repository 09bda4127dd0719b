use std::time::Duration;

use serde::Deserialize;

use crate::executor::tool_settings::ToolSettings;

/// Which callers share a cached result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheScope {
    /// Calls share a cached result if they have the same user and the same principal, and the user
    /// is verified in all of these calls or in none. Calls of a principal without a user count as
    /// calls of one user. For a tool that makes nested calls, the channel and the allowed tools
    /// must be the same, too.
    #[default]
    Private,
    /// All callers share a cached result.
    Public,
}

/// How long the results of a tool are cached, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheRule {
    /// Maximum age of a cached result.
    pub ttl: Duration,
    /// The callers that share a cached result.
    pub scope: CacheScope,
}

/// Configuration of the result cache. By default, only results of MCP servers with cache hints are
/// cached.
#[derive(Debug, Clone)]
pub struct CacheConfig {
    /// Rules by tool name. Calls with the same arguments return the same cached result until the
    /// `ttl` of the rule has elapsed. The [`CacheScope`] of the rule determines which callers share
    /// the result.
    pub tools: ToolSettings<CacheRule>,
    /// Whether to honor the cache hints of MCP servers (`ttlMs` and `cacheScope`), for tools
    /// without a rule in `tools`. Default `true`.
    pub honor_servers: bool,
    /// Maximum number of cached results. Default 10,000.
    pub max_entries: usize,
    /// Approximate maximum size of the cached results, in bytes. Default 64 MiB.
    pub max_bytes: usize,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            tools: ToolSettings::default(),
            honor_servers: true,
            max_entries: 10_000,
            max_bytes: 64 * 1024 * 1024,
        }
    }
}
