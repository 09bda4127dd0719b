use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

use super::LatencyHistogram;

/// Counts HTTP requests by method, route and status, and measures their latency.
#[derive(Debug, Default)]
pub struct RequestMetrics {
    counts: RwLock<BTreeMap<RequestLabels, Arc<AtomicU64>>>,
    /// The times from receiving a request to its response head, for all requests together.
    pub latency: LatencyHistogram,
}

/// The labels of a request. The route is a pattern, so the number of label sets is bounded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestLabels {
    /// The pattern of the route's path.
    pub route: String,
    /// The HTTP method, or `other` for an unknown method.
    pub method: &'static str,
    /// The HTTP status of the response.
    pub status: u16,
}

impl RequestMetrics {
    /// Counts a request; `elapsed` is the time until the head of its response.
    pub fn add(&self, method: &str, route: &str, status: u16, elapsed: Duration) {
        let labels = RequestLabels {
            route: route.to_owned(),
            method: known_method(method).unwrap_or("other"),
            status,
        };
        self.latency.add(elapsed);
        if let Some(count) = self.counts.read().get(&labels) {
            count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut counts = self.counts.write();
        counts
            .entry(labels)
            .or_default()
            .fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of requests with each set of labels.
    #[must_use]
    pub fn counts(&self) -> Vec<(RequestLabels, u64)> {
        let counts = self.counts.read();
        let pairs = counts.iter();
        pairs
            .map(|(labels, count)| (labels.clone(), count.load(Ordering::Relaxed)))
            .collect()
    }
}

/// Returns the name of a known HTTP method; `None` for any other method, which may be arbitrary
/// text of a client.
pub(crate) fn known_method(method: &str) -> Option<&'static str> {
    const HTTP_METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    HTTP_METHODS.into_iter().find(|name| *name == method)
}
