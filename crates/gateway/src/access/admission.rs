use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pillion_deadline::timeout;
use tokio_util::sync::CancellationToken;

use super::connection_permits::{ConnectionPermits, PrincipalPermit};

/// Whether a TCP connection has authenticated with a valid token, and the permit that an
/// authenticated connection holds. An extension of every request on the connection.
#[derive(Debug)]
pub struct Admission {
    permits: Arc<ConnectionPermits>,
    permit: OnceLock<PrincipalPermit>,
    admitted: CancellationToken,
    /// Maximum time that the connection waits for a permit.
    timeout: Duration,
    is_checking: AtomicBool,
}

impl Admission {
    /// Creates the admission of a connection that may wait up to `timeout` for one of the permits.
    pub fn new(permits: &Arc<ConnectionPermits>, timeout: Duration) -> Self {
        Self {
            permits: Arc::clone(permits),
            permit: OnceLock::new(),
            admitted: CancellationToken::new(),
            timeout,
            is_checking: AtomicBool::new(false),
        }
    }

    /// Acquires a permit for the connection after its first valid token, which is this principal's.
    /// Returns `false` if no permit became free in time.
    pub async fn admit(&self, principal: &str) -> bool {
        if self.is_admitted() {
            return true;
        }
        let permit = self.permits.acquire(principal);
        let Ok(permit) = timeout(self.timeout, permit).await else {
            return false;
        };
        // A connection serves one request at a time, so the permit is set only once.
        drop(self.permit.set(permit));
        self.admitted.cancel();
        true
    }

    /// Whether the connection has its permit.
    pub fn is_admitted(&self) -> bool {
        self.permit.get().is_some()
    }

    /// Resolves when the connection has its permit.
    pub async fn admitted(&self) {
        self.admitted.cancelled().await;
    }

    /// Records whether a request of the connection is being checked.
    pub fn set_checking(&self, is_checking: bool) {
        self.is_checking.store(is_checking, Ordering::Relaxed);
    }

    /// Whether a request of the connection is being checked.
    pub fn is_checking(&self) -> bool {
        self.is_checking.load(Ordering::Relaxed)
    }
}
