use pillion_core::executor::{CacheConfig, CacheScope};
use serde::Deserialize;

/// `[cache]`: how much is kept of the results of tools with `cache_ttl_ms`, and of those of MCP
/// servers that say themselves how long they are good.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheSection {
    /// Whether any result is kept (N1): without, neither `cache_ttl_ms` nor `heed_servers` counts.
    /// `PILLION__CACHE__ENABLED`. Default true.
    pub enabled: bool,
    /// Whether results of MCP servers are kept that carry `ttlMs`.
    /// `PILLION__CACHE__HEED_SERVERS`. Default true.
    pub heed_servers: bool,
    /// Results at most; those go first that were used longest ago.
    /// `PILLION__CACHE__MAX_ENTRIES`. Default 10,000.
    pub max_entries: usize,
    /// Their bytes, about. `PILLION__CACHE__MAX_BYTES`. Default 64 MiB.
    pub max_bytes: usize,
}

impl Default for CacheSection {
    fn default() -> Self {
        let core = CacheConfig::default();
        Self {
            enabled: true,
            heed_servers: core.heed_servers,
            max_entries: core.max_entries,
            max_bytes: core.max_bytes,
        }
    }
}

impl CacheSection {
    /// Puts the switches and the bounds into the executor's configuration.
    pub(crate) fn bound(&self, cache: &mut CacheConfig) {
        if !self.enabled {
            cache.tools.clear();
        }
        cache.heed_servers = self.enabled && self.heed_servers;
        cache.max_entries = self.max_entries;
        cache.max_bytes = self.max_bytes;
    }
}

/// For whom a result is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheScopeName {
    /// For the user whose call it was.
    #[default]
    Private,
    /// For everybody.
    Public,
}

impl From<CacheScopeName> for CacheScope {
    fn from(name: CacheScopeName) -> Self {
        match name {
            CacheScopeName::Private => Self::Private,
            CacheScopeName::Public => Self::Public,
        }
    }
}
