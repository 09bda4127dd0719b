use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::Mutex;

use super::{ProtocolVersion, ServerConfig, TransportKind};

/// A way of speaking that has worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) transport: TransportKind,
    pub(super) opening: Opening,
}

/// How a conversation begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// With the first request, which says its revision (2026-07-28 and later).
    Stateless(ProtocolVersion),
    /// With `initialize`, which offers this revision.
    Handshake(ProtocolVersion),
    /// With the first request, of no particular revision (S4).
    None,
}

/// What the servers of this process turned out to speak, so that another client of the same
/// server need not find out again. What does not fit any more is forgotten.
///
/// It is only ever tried to be locked: a process may fork while another thread holds the
/// lock, which then stays locked in the child for ever. There nothing is remembered.
static KNOWN: LazyLock<Mutex<HashMap<String, Dialect>>> = LazyLock::new(Mutex::default);

/// Servers that are remembered at most; one more, and all are forgotten.
const MOST_KNOWN: usize = 4096;

impl Dialect {
    /// What is known of the server; nothing unless finding out is allowed.
    pub(super) fn known(config: &ServerConfig) -> Option<Self> {
        KNOWN.try_lock()?.get(&config.display_url()).copied()
    }

    pub(super) fn remember(self, config: &ServerConfig) {
        let Some(mut known) = KNOWN.try_lock() else {
            return;
        };
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(config.display_url(), self);
    }

    pub(super) fn forget(config: &ServerConfig) {
        if let Some(mut known) = KNOWN.try_lock() {
            known.remove(&config.display_url());
        }
    }
}
