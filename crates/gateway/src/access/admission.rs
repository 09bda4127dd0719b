use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use pillion_deadline::timeout;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

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

    /// Acquires a permit for the connection, whose first valid token belongs to `principal`.
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

/// The permits of authenticated TCP connections. One principal cannot hold all of them: an eighth of
/// those that no other principal holds stays free for others.
#[derive(Debug)]
pub struct ConnectionPermits {
    max: usize,
    held: Mutex<HeldPermits>,
    released: Notify,
}

#[derive(Debug, Default)]
struct HeldPermits {
    total: usize,
    by_principal: HashMap<String, usize>,
}

/// A connection's permit, which is released when dropped.
#[derive(Debug)]
struct PrincipalPermit {
    permits: Arc<ConnectionPermits>,
    principal: String,
}

impl ConnectionPermits {
    /// Creates `max` permits.
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            held: Mutex::default(),
            released: Notify::new(),
        })
    }

    /// Acquires a permit for a principal, when one is free.
    async fn acquire(self: &Arc<Self>, principal: &str) -> PrincipalPermit {
        loop {
            let mut released = pin!(self.released.notified());
            // Registered before the check below, so that no release is missed.
            released.as_mut().enable();
            if let Some(permit) = self.try_acquire(principal) {
                return permit;
            }
            released.await;
        }
    }

    fn try_acquire(self: &Arc<Self>, principal: &str) -> Option<PrincipalPermit> {
        let mut held = self.held.lock();
        let held_by_principal = held.by_principal.get(principal).copied().unwrap_or(0);
        let available = self.max.saturating_sub(held.total - held_by_principal);
        if held.total >= self.max || held_by_principal >= available - available / 8 {
            return None;
        }
        held.total += 1;
        held.by_principal
            .insert(principal.to_owned(), held_by_principal + 1);
        Some(PrincipalPermit {
            permits: Arc::clone(self),
            principal: principal.to_owned(),
        })
    }
}

impl Drop for PrincipalPermit {
    fn drop(&mut self) {
        let mut held = self.permits.held.lock();
        held.total -= 1;
        if let Some(held_by_principal) = held.by_principal.get_mut(&self.principal) {
            *held_by_principal -= 1;
            if *held_by_principal == 0 {
                held.by_principal.remove(&self.principal);
            }
        }
        drop(held);
        self.permits.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_principal_leaves_permits_for_others() {
        for max in 1..200 {
            let permits = ConnectionPermits::new(max);
            let take_all = |principal: &str| {
                std::iter::from_fn(|| permits.try_acquire(principal)).collect::<Vec<_>>()
            };
            let first = take_all("first");
            assert_eq!(first.len(), max - max / 8);
            let second = take_all("second");
            assert!(second.len() >= (max / 8).min(1), "{max}");
            assert!(first.len() + second.len() <= max);
            // Every principal may acquire released permits, including the one that released them.
            drop(first);
            assert!(permits.try_acquire("first").is_some(), "{max}");
            drop(second);
            assert_eq!(take_all("second").len(), max - max / 8);
            assert_eq!(permits.held.lock().total, 0);
            assert!(permits.held.lock().by_principal.is_empty());
        }
    }

    #[tokio::test]
    async fn a_waiting_principal_gets_a_permit_that_another_releases() {
        let permits = ConnectionPermits::new(1);
        let first = permits.acquire("first").await;
        let mut second = pin!(permits.acquire("second"));
        assert!(futures_util::poll!(second.as_mut()).is_pending());
        drop(first);
        second.await;
    }
}
