use parking_lot::Mutex;
use tokio::time::Instant;

/// Until when it does not count that a server says that its list has changed. Those who ask it
/// decide, and those who listen to it look, also while it is being asked.
#[derive(Debug, Default)]
pub(crate) struct Doubt(Mutex<Option<Instant>>);

impl Doubt {
    /// From now on it is this; none for a server that is believed.
    pub(super) fn set(&self, until: Option<Instant>) {
        *self.0.lock() = until;
    }

    /// The moment, if it is still to come.
    pub(crate) fn until(&self) -> Option<Instant> {
        let until = *self.0.lock();
        until.filter(|until| *until > Instant::now())
    }
}
