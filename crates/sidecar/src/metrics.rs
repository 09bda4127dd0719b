//! What is counted while the sidecar runs, for `/metrics`, `/api/v1/status` and `pillion top`.
//!
//! Nothing here grows without bound: tools are counted by name only while they are known, and
//! at most 2,000 of them; routes are patterns; everything else is a fixed set.

mod exposition;
mod latency;
mod requests;
mod system;
mod tools;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

pub use exposition::{CONTENT_TYPE, Scrape};
pub use latency::Latency;
pub use requests::Requests;
pub use system::System;
pub use tools::Tools;

/// The counters of one process. They outlive a reload of the configuration.
#[derive(Debug)]
pub struct Metrics {
    started: Instant,
    started_at: SystemTime,
    /// Calls of tools.
    pub tools: Arc<Tools>,
    /// HTTP requests.
    pub requests: Requests,
    /// Connections on the Unix socket.
    pub unix: Connections,
    /// Connections over TCP.
    pub tcp: Connections,
    /// Reloads of the configuration that were taken over.
    pub reloads: AtomicU64,
    /// Reloads that were refused.
    pub failed_reloads: AtomicU64,
}

/// The connections of one listener.
#[derive(Debug, Default)]
pub struct Connections {
    open: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    cut_off: AtomicU64,
}

impl Metrics {
    /// With everything at zero.
    #[must_use]
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
            started_at: SystemTime::now(),
            tools: Arc::default(),
            requests: Requests::default(),
            unix: Connections::default(),
            tcp: Connections::default(),
            reloads: AtomicU64::new(0),
            failed_reloads: AtomicU64::new(0),
        }
    }

    /// How long the process has been counting.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// When it began.
    #[must_use]
    pub fn started_at(&self) -> SystemTime {
        self.started_at
    }

    /// The connections of the listener that [`Peer::transport`](crate::access::Peer::transport)
    /// names.
    #[must_use]
    pub fn connections(&self, transport: &str) -> &Connections {
        if transport == "tcp" {
            &self.tcp
        } else {
            &self.unix
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Connections {
    /// One more; it ends when [`closed`](Self::closed) is called.
    pub fn opened(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// One ended.
    pub fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// One is answered with a refusal and nothing else, as the socket's rules say.
    pub fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// One was cut off because its reader did not read.
    pub fn cut_off(&self) {
        self.cut_off.fetch_add(1, Ordering::Relaxed);
    }

    /// How many are open.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// How many there were: accepted, of them refused, of them cut off.
    #[must_use]
    pub fn totals(&self) -> [(&'static str, u64); 3] {
        [
            ("accepted", self.accepted.load(Ordering::Relaxed)),
            ("refused", self.refused.load(Ordering::Relaxed)),
            ("cut_off", self.cut_off.load(Ordering::Relaxed)),
        ]
    }
}
