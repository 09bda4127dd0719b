use pillion_core::executor::CacheConfig;
use serde::Deserialize;

/// `[cache]`: limits of the result cache, which holds results of tools with `cache_ttl_ms`, and
/// results with `ttlMs` from MCP servers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct CacheSection {
    /// Whether results are cached. If false, `cache_ttl_ms` and `honor_servers` have no effect.
    pub enabled: bool,
    /// Whether to honor `ttlMs` and `cacheScope` of results of MCP servers.
    pub honor_servers: bool,
    /// Maximum number of cached results; when the cache is full, the least recently used results
    /// are evicted.
    pub max_entries: usize,
    /// Approximate maximum size of the cached results, in bytes.
    pub max_bytes: usize,
}

impl Default for CacheSection {
    fn default() -> Self {
        let default_config = CacheConfig::default();
        Self {
            enabled: true,
            honor_servers: default_config.honor_servers,
            max_entries: default_config.max_entries,
            max_bytes: default_config.max_bytes,
        }
    }
}

impl CacheSection {
    /// Copies the switches and limits to the executor's cache configuration.
    pub(super) fn apply_to(&self, cache: &mut CacheConfig) {
        if !self.enabled {
            cache.tools.clear();
        }
        cache.honor_servers = self.enabled && self.honor_servers;
        cache.max_entries = self.max_entries;
        cache.max_bytes = self.max_bytes;
    }
}
