use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use super::{Feature, Handshake, ProtocolVersion, ServerConfig, TransportKind};

/// The transport of a server and how its sessions start, as configured or detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ServerDialect {
    pub(super) transport: TransportKind,
    pub(super) session_start: SessionStart,
}

/// How a session starts: with `initialize`, or without a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionStart {
    /// The session starts with the first request, which names this revision (2026-07-28 and
    /// later).
    Stateless(ProtocolVersion),
    /// The session starts with `initialize`, which requests this revision.
    Handshake(ProtocolVersion),
    /// The session starts with the first request, which names no revision.
    None,
}

impl SessionStart {
    /// Returns how sessions start according to the configuration; `None` if the client must detect
    /// how sessions start.
    pub(super) fn from_config(config: &ServerConfig) -> Option<Self> {
        match (config.handshake, config.protocol_version) {
            (Handshake::Never, _) => Some(Self::None),
            (Handshake::Auto, Some(version)) if !version.supports(Feature::Handshake) => {
                Some(Self::Stateless(version))
            }
            (Handshake::Auto, version) => version.map(Self::Handshake),
        }
    }
}

/// The transports and revisions that clients of this process have detected, so that other clients
/// of a server need not detect them again. Outdated entries are removed.
///
/// Only locked with `try_lock`: if a process forks while another thread holds the lock, the lock is
/// never released in the child. The child then caches nothing.
static DIALECT_CACHE: LazyLock<Mutex<HashMap<DialectKey, ServerDialect>>> =
    LazyLock::new(Mutex::default);

/// Maximum number of cached servers; when exceeded, the cache is cleared.
const MAX_CACHED_DIALECTS: usize = 4096;

/// Identifies a server and the caller: the transport and revision may depend on the credential and
/// on the URL's query. Both are secret, so the key contains only a hash of them.
#[derive(Clone, PartialEq, Eq, Hash)]
struct DialectKey {
    display_url: String,
    identity_hash: u64,
}

impl DialectKey {
    fn for_config(config: &ServerConfig) -> Self {
        static HASH_STATE: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let header_map = config.build_header_map().unwrap_or_default();
        let headers: Vec<_> = header_map.iter().collect();
        // The cache key contains the configuration of the authentication and the address of the
        // token store, because they identify the owner of a token that is obtained at run time.
        let credential = format!("{:?}", config.authentication);
        let token_store = config.authorization.token_store.as_ref();
        let store_address = token_store.map(|store| Arc::as_ptr(store).addr());
        let url = config.request_url().ok();
        let query = url.as_ref().and_then(|url| url.query());
        Self {
            display_url: config.display_url(),
            identity_hash: HASH_STATE.hash_one((headers, credential, store_address, query)),
        }
    }
}

impl ServerDialect {
    pub(super) fn new(transport: TransportKind, session_start: SessionStart) -> Self {
        Self {
            transport,
            session_start,
        }
    }

    /// Returns the cached transport and revision of the server; `None` if the cache does not
    /// contain the server.
    pub(super) fn find_cached(config: &ServerConfig) -> Option<Self> {
        DIALECT_CACHE
            .try_lock()?
            .get(&DialectKey::for_config(config))
            .copied()
    }

    pub(super) fn remember(self, config: &ServerConfig) {
        if let Some(mut cache) = DIALECT_CACHE.try_lock() {
            if cache.len() >= MAX_CACHED_DIALECTS {
                cache.clear();
            }
            cache.insert(DialectKey::for_config(config), self);
        }
    }

    pub(super) fn forget(config: &ServerConfig) {
        if let Some(mut cache) = DIALECT_CACHE.try_lock() {
            cache.remove(&DialectKey::for_config(config));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Authentication;

    #[test]
    fn a_detected_dialect_is_known_only_for_the_same_url_and_credential() {
        let config = |url: &str, token: &str| {
            let mut config = ServerConfig::new("x", url).unwrap();
            let token = token.to_owned().into();
            config.authentication = Authentication::Bearer { token };
            config
        };
        let first = config("https://dialects.example/mcp?tenant=1", "a");
        let dialect = ServerDialect::new(TransportKind::StreamableHttp, SessionStart::None);
        dialect.remember(&first);
        assert_eq!(ServerDialect::find_cached(&first), Some(dialect));
        for other in [
            config("https://dialects.example/mcp?tenant=1", "b"),
            config("https://dialects.example/mcp?tenant=2", "a"),
            config("https://dialects.example/mcp", "a"),
        ] {
            assert_eq!(ServerDialect::find_cached(&other), None);
        }
        ServerDialect::forget(&first);
        assert_eq!(ServerDialect::find_cached(&first), None);
    }
}
