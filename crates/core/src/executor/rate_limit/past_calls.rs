use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Tracks whether calls of earlier processes are still being counted. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct PastCallCounts(Arc<SharedCounts>);

#[derive(Debug, Default)]
struct SharedCounts {
    running_counts: AtomicUsize,
    completion: Notify,
}

/// A guard that exists while calls of earlier processes are being counted. Calls of tools with a
/// rate limit or a cooldown wait until the guard is dropped.
#[derive(Debug)]
pub struct PastCallCount(PastCallCounts);

impl PastCallCounts {
    pub(super) fn begin(&self) -> PastCallCount {
        self.0.running_counts.fetch_add(1, Ordering::AcqRel);
        PastCallCount(self.clone())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.0.running_counts.load(Ordering::Acquire) == 0
    }

    /// Waits until all calls of earlier processes are counted.
    pub(super) async fn wait_for_completion(&self) {
        loop {
            let completion = self.0.completion.notified();
            if self.is_complete() {
                return;
            }
            completion.await;
        }
    }
}

impl Drop for PastCallCount {
    fn drop(&mut self) {
        let PastCallCounts(counts) = &self.0;
        counts.running_counts.fetch_sub(1, Ordering::AcqRel);
        counts.completion.notify_waiters();
    }
}
