use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::request::Parts;
use parking_lot::Mutex;
use pillion_deadline::timeout;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::waiting_bytes::ConnectionBytes;

/// Records whether a TCP connection has authenticated with a valid token, and holds the permit of
/// an authenticated connection. Attached to every request on the connection as an HTTP extension.
#[derive(Debug)]
pub struct Admission {
    permits: Arc<ConnectionPermits>,
    permit: OnceLock<PrincipalPermit>,
    admission_signal: CancellationToken,
    /// Maximum time that the connection waits for a permit.
    timeout: Duration,
    is_checking: AtomicBool,
}

impl Admission {
    /// Creates the admission of a connection that waits up to `timeout` for one of `permits`.
    pub fn new(permits: &Arc<ConnectionPermits>, timeout: Duration) -> Self {
        Self {
            permits: Arc::clone(permits),
            permit: OnceLock::new(),
            admission_signal: CancellationToken::new(),
            timeout,
            is_checking: AtomicBool::new(false),
        }
    }

    /// Acquires a permit for the connection, whose first valid token belongs to `principal`.
    /// Returns `false` if no permit became free within the timeout.
    pub async fn admit(&self, principal: &str) -> bool {
        if self.is_admitted() {
            return true;
        }
        let permit = self.permits.acquire(principal);
        let Ok(permit) = timeout(self.timeout, permit).await else {
            return false;
        };
        // Setting the permit cannot fail, because a connection serves one request at a time.
        drop(self.permit.set(permit));
        self.admission_signal.cancel();
        true
    }

    /// Marks the connection of `request` as that of the authenticated `principal`, for the limits on
    /// connections and on the memory of responses. Returns `false` if no permit is free. A connection
    /// on the Unix socket needs no permit.
    pub async fn admit_request(request: &Parts, principal: &str) -> bool {
        if let Some(admission) = request.extensions.get::<Arc<Self>>()
            && !admission.admit(principal).await
        {
            return false;
        }
        if let Some(connection_bytes) = request.extensions.get::<ConnectionBytes>() {
            connection_bytes.set_principal(principal);
        }
        true
    }

    /// Returns whether the connection has acquired its permit.
    pub fn is_admitted(&self) -> bool {
        self.permit.get().is_some()
    }

    /// Resolves when the connection has acquired its permit.
    pub async fn wait_until_admitted(&self) {
        self.admission_signal.cancelled().await;
    }

    /// Records whether the token of a request on the connection is being checked.
    pub fn set_checking(&self, is_checking: bool) {
        self.is_checking.store(is_checking, Ordering::Relaxed);
    }

    /// Returns whether the token of a request on the connection is being checked.
    pub fn is_checking(&self) -> bool {
        self.is_checking.load(Ordering::Relaxed)
    }
}

/// The permits of authenticated TCP connections. Of the permits that other principals do not hold,
/// a principal can hold at most seven eighths, so that one principal cannot hold all permits.
#[derive(Debug)]
pub struct ConnectionPermits {
    max_permits: usize,
    held_permits: Mutex<HeldPermits>,
    release_notify: Notify,
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
    /// Creates `max_permits` permits.
    #[must_use]
    pub fn new(max_permits: usize) -> Arc<Self> {
        Arc::new(Self {
            max_permits,
            held_permits: Mutex::default(),
            release_notify: Notify::new(),
        })
    }

    /// Waits until a permit is free for the principal, and acquires it.
    async fn acquire(self: &Arc<Self>, principal: &str) -> PrincipalPermit {
        loop {
            let mut release_signal = pin!(self.release_notify.notified());
            // The task registers for the next release before it tries to get a permit, so that it
            // misses no release.
            release_signal.as_mut().enable();
            if let Some(permit) = self.try_acquire(principal) {
                return permit;
            }
            release_signal.await;
        }
    }

    fn try_acquire(self: &Arc<Self>, principal: &str) -> Option<PrincipalPermit> {
        let mut held = self.held_permits.lock();
        let own_permits = held.by_principal.get(principal).copied().unwrap_or(0);
        let available = self.max_permits.saturating_sub(held.total - own_permits);
        if held.total >= self.max_permits || own_permits >= available - available / 8 {
            return None;
        }
        held.total += 1;
        *held.by_principal.entry(principal.to_owned()).or_default() += 1;
        Some(PrincipalPermit {
            permits: Arc::clone(self),
            principal: principal.to_owned(),
        })
    }
}

impl Drop for PrincipalPermit {
    fn drop(&mut self) {
        let mut held = self.permits.held_permits.lock();
        held.total -= 1;
        if let Some(own_permits) = held.by_principal.get_mut(&self.principal) {
            *own_permits -= 1;
            if *own_permits == 0 {
                held.by_principal.remove(&self.principal);
            }
        }
        drop(held);
        self.permits.release_notify.notify_waiters();
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
            // Every principal may acquire released permits, including the principal that released
            // them.
            drop(first);
            assert!(permits.try_acquire("first").is_some(), "{max}");
            drop(second);
            assert_eq!(take_all("second").len(), max - max / 8);
            assert_eq!(permits.held_permits.lock().total, 0);
            assert!(permits.held_permits.lock().by_principal.is_empty());
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
