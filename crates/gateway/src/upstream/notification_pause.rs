use parking_lot::Mutex;
use tokio::time::Instant;

/// The time until which change notifications of a server are ignored. Shared between the requests
/// that set this time and the listeners that check it.
#[derive(Debug, Default)]
pub struct NotificationPause(Mutex<Option<Instant>>);

impl NotificationPause {
    /// Sets the time; `None` to honor notifications.
    pub(super) fn set(&self, until: Option<Instant>) {
        *self.0.lock() = until;
    }

    /// Returns the time if it is in the future.
    pub fn until(&self) -> Option<Instant> {
        let until = *self.0.lock();
        until.filter(|until| *until > Instant::now())
    }
}
