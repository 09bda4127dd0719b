//! Metrics for `/metrics`, `/api/v1/status` and `pillion top`.
//!
//! Memory is bounded: only known tools are counted by name, at most 2,000 of them; routes are
//! counted by their patterns; all other labels have a fixed set of values.

mod exposition;
mod latency;
mod requests;
mod system;
mod tools;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

pub use exposition::{CONTENT_TYPE, Scrape};
pub use latency::LatencyHistogram;
pub use requests::RequestMetrics;
pub(crate) use requests::known_method;
pub use system::SystemMetrics;
pub use tools::ToolMetrics;

/// The metrics of one process, which outlive a reload of the configuration.
#[derive(Debug)]
pub struct Metrics {
    start_instant: Instant,
    started_at: SystemTime,
    /// Statistics of tool calls.
    pub tools: Arc<ToolMetrics>,
    /// Statistics of HTTP requests.
    pub requests: RequestMetrics,
    /// Statistics of the connections on the Unix socket.
    pub unix: ConnectionMetrics,
    /// Statistics of the connections over TCP.
    pub tcp: ConnectionMetrics,
    /// Number of applied reloads of the configuration.
    pub reloads: AtomicU64,
    /// Number of rejected reloads of the configuration.
    pub failed_reloads: AtomicU64,
}

/// Statistics of the connections of one listener.
#[derive(Debug, Default)]
pub struct ConnectionMetrics {
    open_count: AtomicU64,
    accepted_count: AtomicU64,
    rejected_count: AtomicU64,
    cut_off_count: AtomicU64,
}

impl Metrics {
    /// Creates metrics with all counters at zero.
    #[must_use]
    pub fn new() -> Self {
        Self {
            start_instant: Instant::now(),
            started_at: SystemTime::now(),
            tools: Arc::default(),
            requests: RequestMetrics::default(),
            unix: ConnectionMetrics::default(),
            tcp: ConnectionMetrics::default(),
            reloads: AtomicU64::new(0),
            failed_reloads: AtomicU64::new(0),
        }
    }

    /// Returns the time since the metrics were created.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.start_instant.elapsed()
    }

    /// Returns the time at which the metrics were created.
    #[must_use]
    pub fn started_at(&self) -> SystemTime {
        self.started_at
    }

    /// Returns the statistics of the connections over `transport`, which is a value of
    /// [`Peer::transport`](crate::access::Peer::transport).
    #[must_use]
    pub fn connections(&self, transport: &str) -> &ConnectionMetrics {
        match transport {
            "tcp" => &self.tcp,
            _ => &self.unix,
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl ConnectionMetrics {
    /// Counts a new connection, which counts as open until [`count_closed`](Self::count_closed).
    pub fn count_opened(&self) {
        self.accepted_count.fetch_add(1, Ordering::Relaxed);
        self.open_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a connection.
    pub fn count_closed(&self) {
        self.open_count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a connection that was rejected, or that was closed before it authenticated.
    pub fn count_rejected(&self) {
        self.rejected_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that was closed because its client did not read the responses.
    pub fn count_cut_off(&self) {
        self.cut_off_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn open_count(&self) -> u64 {
        self.open_count.load(Ordering::Relaxed)
    }

    /// Returns the numbers of connections that were accepted, rejected, and closed because their
    /// clients did not read.
    #[must_use]
    pub fn totals(&self) -> [(&'static str, u64); 3] {
        [
            ("accepted", self.accepted_count.load(Ordering::Relaxed)),
            ("refused", self.rejected_count.load(Ordering::Relaxed)),
            ("cut_off", self.cut_off_count.load(Ordering::Relaxed)),
        ]
    }
}
