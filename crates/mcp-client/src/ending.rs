use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::McpErrorKind;

/// A resettable signal for many waiters. Waiting is cheaper than with a `CancellationToken`, which
/// has children and locks them.
#[derive(Default)]
pub(super) struct Ending {
    has_come: AtomicBool,
    coming: Notify,
}

impl Ending {
    /// Sets the signal, and wakes all waiters.
    pub(super) fn come(&self) {
        self.has_come.store(true, Ordering::Release);
        self.coming.notify_waiters();
    }

    /// Resets the signal.
    pub(super) fn take_back(&self) {
        self.has_come.store(false, Ordering::Release);
    }

    pub(super) fn has_come(&self) -> bool {
        self.has_come.load(Ordering::Acquire)
    }

    /// Runs `work`, unless the signal is set before or meanwhile.
    ///
    /// # Errors
    /// [`McpErrorKind::Disconnected`] if the signal is set.
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

    /// Waits until the signal is set.
    async fn came(&self) {
        // Registered before the flag is read, so that the signal is not missed.
        let coming = self.coming.notified();
        if !self.has_come() {
            coming.await;
        }
    }
}
