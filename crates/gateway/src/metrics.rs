//! Metrics for `/metrics`, `/api/v1/status` and `pillion top`.
//!
//! Memory is bounded: only known tools are counted by name, at most 2,000 of them; routes are
//! patterns; everything else is a fixed set.

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
pub(crate) use requests::known_method;
pub use system::System;
pub use tools::Tools;

/// The metrics of one process, which outlive a reload of the configuration.
#[derive(Debug)]
pub struct Metrics {
    started: Instant,
    started_at: SystemTime,
    /// Statistics of tool calls.
    pub tools: Arc<Tools>,
    /// Statistics of HTTP requests.
    pub requests: Requests,
    /// Statistics of the connections on the Unix socket.
    pub unix: Connections,
    /// Statistics of the connections over TCP.
    pub tcp: Connections,
    /// Number of applied reloads of the configuration.
    pub reloads: AtomicU64,
    /// Number of rejected reloads of the configuration.
    pub failed_reloads: AtomicU64,
}

/// Statistics of the connections of one listener.
#[derive(Debug, Default)]
pub struct Connections {
    open: AtomicU64,
    accepted: AtomicU64,
    rejected: AtomicU64,
    cut_off: AtomicU64,
}

impl Metrics {
    /// Creates metrics with all counters at zero.
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

    /// Returns the time since the metrics were created.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns when the metrics were created.
    #[must_use]
    pub fn started_at(&self) -> SystemTime {
        self.started_at
    }

    /// Returns the connections of a listener, by the name that
    /// [`Peer::transport`](crate::access::Peer::transport) returns.
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
    /// Counts a new connection, which counts as open until [`count_closed`](Self::count_closed).
    pub fn count_opened(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a connection.
    pub fn count_closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a connection that was rejected, or closed without authentication.
    pub fn count_rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that was closed because its client did not read.
    pub fn count_cut_off(&self) {
        self.cut_off.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Returns the numbers of accepted connections, and of those that were rejected and cut off.
    #[must_use]
    pub fn totals(&self) -> [(&'static str, u64); 3] {
        [
            ("accepted", self.accepted.load(Ordering::Relaxed)),
            ("refused", self.rejected.load(Ordering::Relaxed)),
            ("cut_off", self.cut_off.load(Ordering::Relaxed)),
        ]
    }
}
