//! A cache of results, as far as the server allows caching (MCP 2026-07-28, "Caching").

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::callbacks::Notification;

/// Maximum size of all cached results, in bytes; a result that does not fit is not cached.
const MAX_CACHE_BYTES: usize = 8 * 1024 * 1024;

/// Maximum time for which a result is cached, even if the server allows more.
const MAX_TTL: Duration = Duration::from_secs(24 * 3600);

/// The cached results of one client. A client has only one credential, so results of scope
/// `private` can be cached like results of scope `public`.
#[derive(Default)]
pub(super) struct McpResultCache {
    results: Mutex<CachedResults>,
}

#[derive(Default)]
struct CachedResults {
    /// Cached results by method and parameters.
    results: HashMap<(String, String), CachedResult>,
    bytes: usize,
    /// The number of times that the results of each method were invalidated, by method.
    generations: HashMap<&'static str, u64>,
}

/// The state of the cache when a request was sent, by which the cache detects that the result of
/// the request was invalidated since then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CacheGeneration(u64);

struct CachedResult {
    result: Box<RawValue>,
    expires_at: Instant,
}

impl McpResultCache {
    /// Returns whether results of a method can be cached, if the server allows caching.
    pub(super) fn is_cacheable(method: &str) -> bool {
        matches!(
            method,
            "tools/list"
                | "prompts/list"
                | "resources/list"
                | "resources/templates/list"
                | "resources/read"
        )
    }

    pub(super) fn get(&self, method: &str, params: &RawValue) -> Option<Box<RawValue>> {
        let mut cache = self.results.lock();
        let key = (method.to_owned(), params.get().to_owned());
        let entry = cache.results.get(&key)?;
        if Instant::now() < entry.expires_at {
            return Some(entry.result.clone());
        }
        cache.remove(&key);
        None
    }

    /// Returns the cache generation for [`put`](Self::put). Must be called before the request is
    /// sent.
    pub(super) fn generation(&self, method: &str) -> CacheGeneration {
        self.results.lock().generation(method)
    }

    /// Caches a result for its `ttlMs`, if the result is complete and was not invalidated since the
    /// request was sent.
    pub(super) fn put(
        &self,
        method: &str,
        params: &RawValue,
        result: &RawValue,
        generation: CacheGeneration,
    ) {
        #[derive(Deserialize)]
        struct CachingHints<'a> {
            #[serde(rename = "ttlMs", default)]
            ttl_ms: f64,
            #[serde(rename = "resultType", borrow, default)]
            result_type: Option<Cow<'a, str>>,
        }
        let Ok(hints) = serde_json::from_str::<CachingHints<'_>>(result.get()) else {
            return;
        };
        if hints.result_type.is_some_and(|name| name != "complete") {
            return;
        }
        let ttl = Duration::try_from_secs_f64(hints.ttl_ms / 1000.0).unwrap_or_default();
        let key = (method.to_owned(), params.get().to_owned());
        let mut cache = self.results.lock();
        if cache.generation(method) != generation {
            return;
        }
        cache.remove(&key);
        let bytes = entry_bytes(&key, result);
        if ttl.is_zero() || bytes > MAX_CACHE_BYTES {
            return;
        }
        if cache.bytes + bytes > MAX_CACHE_BYTES {
            cache.results.clear();
            cache.bytes = 0;
        }
        cache.bytes += bytes;
        let expires_at = Instant::now() + ttl.min(MAX_TTL);
        let result = result.to_owned();
        let entry = CachedResult { result, expires_at };
        cache.results.insert(key, entry);
    }

    /// Removes all cached results of a method, such as the pages of a list.
    pub(super) fn forget(&self, method: &'static str) {
        let mut cache = self.results.lock();
        *cache.generations.entry(method).or_default() += 1;
        let stale_keys = cache.results.keys().filter(|key| key.0 == method);
        for key in stale_keys.cloned().collect::<Vec<_>>() {
            cache.remove(&key);
        }
    }

    /// Removes the results that a notification invalidates.
    pub(super) fn handle_notification(&self, notification: &Notification) {
        let changed_methods: &[&'static str] = match notification.method.as_str() {
            "notifications/tools/list_changed" => &["tools/list"],
            "notifications/prompts/list_changed" => &["prompts/list"],
            "notifications/resources/list_changed" => {
                &["resources/list", "resources/templates/list"]
            }
            "notifications/resources/updated" => &["resources/read"],
            _ => return,
        };
        for method in changed_methods {
            self.forget(method);
        }
    }
}

impl CachedResults {
    fn generation(&self, method: &str) -> CacheGeneration {
        CacheGeneration(self.generations.get(method).copied().unwrap_or_default())
    }

    fn remove(&mut self, key: &(String, String)) {
        if let Some(entry) = self.results.remove(key) {
            self.bytes -= entry_bytes(key, &entry.result);
        }
    }
}

fn entry_bytes((method, params): &(String, String), result: &RawValue) -> usize {
    method.len() + params.len() + result.get().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn notification(method: &str) -> Notification {
        Notification {
            method: method.to_owned(),
            params: raw("{}"),
        }
    }

    #[test]
    fn a_result_is_cached_for_its_ttl_until_a_change_notification() {
        let cache = McpResultCache::default();
        let put = |params: &RawValue, result: &RawValue| {
            cache.put("tools/list", params, result, cache.generation("tools/list"));
        };
        let (params, fresh) = (raw("{}"), raw(r#"{"tools":[],"ttlMs":60000}"#));
        put(&params, &fresh);
        assert!(cache.get("tools/list", &params).is_some());
        assert!(cache.get("tools/list", &raw(r#"{"cursor":"2"}"#)).is_none());
        cache.handle_notification(&notification("notifications/prompts/list_changed"));
        assert!(cache.get("tools/list", &params).is_some());
        cache.handle_notification(&notification("notifications/tools/list_changed"));
        assert!(cache.get("tools/list", &params).is_none());
        assert_eq!(cache.results.lock().bytes, 0);
        for stale in [
            "{}",
            r#"{"ttlMs":0}"#,
            r#"{"ttlMs":-5}"#,
            r#"{"ttlMs":"x"}"#,
            r#"{"ttlMs":1e999}"#,
            r#"{"ttlMs":60000,"resultType":"input_required","requestState":"x"}"#,
            r#"{"ttlMs":60000,"resultType":7}"#,
        ] {
            put(&params, &raw(stale));
            assert!(cache.get("tools/list", &params).is_none(), "{stale}");
        }
        put(&params, &raw(r#"{"ttlMs":1}"#));
        std::thread::sleep(Duration::from_millis(5));
        assert!(cache.get("tools/list", &params).is_none());
    }
    #[test]
    fn a_result_requested_before_a_change_is_not_cached_after_it() {
        let cache = McpResultCache::default();
        let (params, result) = (raw("{}"), raw(r#"{"tools":[],"ttlMs":60000}"#));
        let sent = cache.generation("tools/list");
        cache.handle_notification(&notification("notifications/tools/list_changed"));
        cache.put("tools/list", &params, &result, sent);
        assert!(cache.get("tools/list", &params).is_none());
        let sent = cache.generation("tools/list");
        cache.handle_notification(&notification("notifications/resources/list_changed"));
        cache.put("tools/list", &params, &result, sent);
        assert!(cache.get("tools/list", &params).is_some());
    }
}
