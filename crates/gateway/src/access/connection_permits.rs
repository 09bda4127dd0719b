use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

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

/// A permit, which is released when it is dropped.
#[derive(Debug)]
pub(super) struct PrincipalPermit {
    permits: Arc<ConnectionPermits>,
    principal: String,
}

impl ConnectionPermits {
    /// Creates this number of permits.
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            held: Mutex::default(),
            released: Notify::new(),
        })
    }

    /// Acquires a permit for a principal, when one is free.
    pub(super) async fn acquire(self: &Arc<Self>, principal: &str) -> PrincipalPermit {
        loop {
            let mut released = pin!(self.released.notified());
            // From here on, no release is missed.
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
            // What a principal releases is free for everybody, itself included.
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
