use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

use super::Latency;

/// HTTP requests by method, route and status.
#[derive(Debug, Default)]
pub struct Requests {
    counts: RwLock<BTreeMap<Seen, Arc<AtomicU64>>>,
    /// How long they took until the head of the answer, all together.
    pub latency: Latency,
}

/// What a request is counted by. The route is a pattern of ours, so that there are only so many.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    /// The pattern of the route.
    pub route: String,
    /// The method, or `other`.
    pub method: &'static str,
    /// The status of the answer.
    pub status: u16,
}

impl Requests {
    /// Counts one.
    pub fn add(&self, method: &str, route: &str, status: u16, elapsed: Duration) {
        let seen = Seen {
            route: route.to_owned(),
            method: known(method),
            status,
        };
        self.latency.add(elapsed);
        if let Some(count) = self.counts.read().get(&seen) {
            count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut counts = self.counts.write();
        counts
            .entry(seen)
            .or_default()
            .fetch_add(1, Ordering::Relaxed);
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<(Seen, u64)> {
        let counts = self.counts.read();
        let pairs = counts.iter();
        pairs
            .map(|(seen, count)| (seen.clone(), count.load(Ordering::Relaxed)))
            .collect()
    }
}

/// A client may make up a method.
fn known(method: &str) -> &'static str {
    const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    METHODS
        .into_iter()
        .find(|known| *known == method)
        .unwrap_or("other")
}
