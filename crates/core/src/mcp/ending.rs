use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::McpErrorKind;

/// An end that many may wait for. Waiting takes a part of what it takes with a
/// `CancellationToken`, which has children and locks them.
#[derive(Default)]
pub(super) struct Ending {
    has_come: AtomicBool,
    coming: Notify,
}

impl Ending {
    /// Tells those who wait, and all who come later.
    pub(super) fn come(&self) {
        self.has_come.store(true, Ordering::Release);
        self.coming.notify_waiters();
    }

    /// From now on it has not come.
    pub(super) fn take_back(&self) {
        self.has_come.store(false, Ordering::Release);
    }

    pub(super) fn has_come(&self) -> bool {
        self.has_come.load(Ordering::Acquire)
    }

    /// Does some work, unless the end comes first or has come.
    ///
    /// # Errors
    /// [`McpErrorKind::Disconnected`] when it has.
    pub(super) async fn unless_it_comes<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, McpErrorKind> {
        tokio::select! {
            biased;
            () = self.came() => Err(McpErrorKind::Disconnected),
            done = work => Ok(done),
        }
    }

    /// Waits for it; not at all where it has come.
    async fn came(&self) {
        // Listened to before the look at the flag, so that it is not missed.
        let coming = self.coming.notified();
        if !self.has_come() {
            coming.await;
        }
    }
}
