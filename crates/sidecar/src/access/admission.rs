use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Whether a TCP connection has authenticated with a valid token, and the permit that an
/// authenticated connection holds. An extension of every request on the connection.
#[derive(Debug)]
pub(crate) struct Admission {
    places: Arc<Semaphore>,
    place: OnceLock<OwnedSemaphorePermit>,
    admitted: CancellationToken,
    /// Maximum time that the connection waits for a permit.
    timeout: Duration,
    is_asking: AtomicBool,
}

impl Admission {
    /// Creates the admission of a connection that may wait up to `timeout` for one of the permits.
    pub(crate) fn new(places: &Arc<Semaphore>, timeout: Duration) -> Self {
        Self {
            places: Arc::clone(places),
            place: OnceLock::new(),
            admitted: CancellationToken::new(),
            timeout,
            is_asking: AtomicBool::new(false),
        }
    }

    /// Acquires a permit for the connection after its first valid token. Returns `false` if no
    /// permit became free in time.
    pub(crate) async fn admit(&self) -> bool {
        if self.is_admitted() {
            return true;
        }
        let place = Arc::clone(&self.places).acquire_owned();
        let Ok(Ok(place)) = timeout(self.timeout, place).await else {
            return false;
        };
        // A connection serves one request at a time, so the permit is set only once.
        drop(self.place.set(place));
        self.admitted.cancel();
        true
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.place.get().is_some()
    }

    /// Resolves when the connection has its permit.
    pub(crate) async fn admitted(&self) {
        self.admitted.cancelled().await;
    }

    /// Records whether a request of the connection is being checked.
    pub(crate) fn set_asking(&self, is_asking: bool) {
        self.is_asking.store(is_asking, Ordering::Relaxed);
    }

    pub(crate) fn is_asking(&self) -> bool {
        self.is_asking.load(Ordering::Relaxed)
    }
}
