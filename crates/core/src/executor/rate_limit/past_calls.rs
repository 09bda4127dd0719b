use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Whether calls of earlier processes are still being counted. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct PastCallCounts(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    running: AtomicUsize,
    ended: Notify,
}

/// Calls of earlier processes are being counted until this value is dropped. Calls of tools with a
/// rate limit or a cooldown wait until then.
#[derive(Debug)]
pub struct PastCallCount(PastCallCounts);

impl PastCallCounts {
    pub(super) fn begin(&self) -> PastCallCount {
        self.0.running.fetch_add(1, Ordering::AcqRel);
        PastCallCount(self.clone())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.0.running.load(Ordering::Acquire) == 0
    }

    /// Waits until all calls are counted.
    pub(super) async fn completed(&self) {
        loop {
            let ended = self.0.ended.notified();
            if self.is_complete() {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for PastCallCount {
    fn drop(&mut self) {
        let PastCallCounts(counts) = &self.0;
        counts.running.fetch_sub(1, Ordering::AcqRel);
        counts.ended.notify_waiters();
    }
}
