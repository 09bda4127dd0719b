use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

use hashlink::LruCache;
use tokio::time::Instant;

use super::config::CacheConfig;
use crate::executor::output::json_len;
use crate::tool::ToolOutput;

/// Approximate size of a cache entry without its result, in bytes.
const ENTRY_OVERHEAD_BYTES: usize = 256;

/// Cached results by key. Evicts the least recently used results first.
pub(super) struct CacheEntries {
    /// The keys are hashed with a random seed, because clients choose the arguments in the keys,
    /// and could otherwise choose keys with equal hashes.
    entries: LruCache<String, Entry, RandomState>,
    bytes: usize,
}

impl Default for CacheEntries {
    fn default() -> Self {
        Self {
            entries: LruCache::with_hasher(usize::MAX, RandomState::new()),
            bytes: 0,
        }
    }
}

struct Entry {
    output: Arc<ToolOutput>,
    stored_at: Instant,
    ttl: Duration,
    bytes: usize,
}

impl CacheEntries {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the result for a key and its age, if the result has not expired and is not older
    /// than `ttl`.
    pub(super) fn get(
        &mut self,
        key: &str,
        ttl: Option<Duration>,
    ) -> Option<(Arc<ToolOutput>, Duration)> {
        let entry = self.entries.get(key)?;
        let max_age = ttl.map_or(entry.ttl, |ttl| ttl.min(entry.ttl));
        let age = entry.stored_at.elapsed();
        if age >= max_age {
            self.remove(key);
            return None;
        }
        Some((Arc::clone(&entry.output), age))
    }

    /// Stores the result for a key, replacing an earlier result, and evicts other results if the
    /// cache is full. A result larger than the whole cache is not stored.
    pub(super) fn put(
        &mut self,
        key: String,
        output: Arc<ToolOutput>,
        ttl: Duration,
        bounds: &CacheConfig,
    ) {
        self.remove(&key);
        let metadata_sizes = output
            .metadata
            .iter()
            .map(|(key, value)| key.len() + json_len(value));
        let bytes = ENTRY_OVERHEAD_BYTES
            + key.len()
            + json_len(&output.result)
            + output.data.as_ref().map_or(0, json_len)
            + metadata_sizes.sum::<usize>();
        if bytes > bounds.max_bytes || bounds.max_entries == 0 {
            return;
        }
        while self.entries.len() >= bounds.max_entries || self.bytes + bytes > bounds.max_bytes {
            let Some((_, oldest_entry)) = self.entries.remove_lru() else {
                break;
            };
            self.bytes -= oldest_entry.bytes;
        }
        self.bytes += bytes;
        let entry = Entry {
            output,
            stored_at: Instant::now(),
            ttl,
            bytes,
        };
        self.entries.insert(key, entry);
    }

    fn remove(&mut self, key: &str) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= entry.bytes;
        }
    }
}
