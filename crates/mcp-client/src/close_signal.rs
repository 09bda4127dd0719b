use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::McpErrorKind;

/// A resettable signal for many waiters. Cheaper to wait for than a `CancellationToken`, which
/// locks its tree of children.
#[derive(Default)]
pub(super) struct CloseSignal {
    is_set: AtomicBool,
    notify: Notify,
}

impl CloseSignal {
    /// Sets the signal, and wakes all waiters.
    pub(super) fn set(&self) {
        self.is_set.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    pub(super) fn reset(&self) {
        self.is_set.store(false, Ordering::Release);
    }

    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// Runs `work`, unless the signal is set before or during the work.
    ///
    /// # Errors
    /// [`McpErrorKind::Disconnected`] if the signal is set.
    pub(super) async fn run_until_closed<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, McpErrorKind> {
        tokio::select! {
            biased;
            () = self.wait() => Err(McpErrorKind::Disconnected),
            output = work => Ok(output),
        }
    }

    /// Waits until the signal is set.
    async fn wait(&self) {
        // The waiter registers before it reads the flag, so that it does not miss the signal.
        let notification = self.notify.notified();
        if !self.is_set() {
            notification.await;
        }
    }
}
