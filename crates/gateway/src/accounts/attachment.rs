use std::sync::Arc;

use parking_lot::Mutex;

use super::{AccountReservation, PrincipalAccounts, Usage};

/// A request that is running, and whether its client is still connected.
#[derive(Debug)]
struct Request {
    accounts: Arc<PrincipalAccounts>,
    principal: Option<String>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// The client waits for the response.
    Attached,
    /// The client has disconnected.
    Detached(
        #[expect(dead_code, reason = "releases the reservation when dropped")] AccountReservation,
    ),
    Ended,
}

/// A guard that the client's side of a request holds. If the client disconnects, the request is
/// cancelled unless the limits on detached requests allow the request to continue.
#[derive(Debug)]
pub struct Attachment(Arc<Request>);

/// A guard that the client's side holds for a request that always continues. If the guard is
/// dropped before the request ends, the client has disconnected.
#[derive(Debug)]
pub struct CommittedAttachment {
    attachment: Attachment,
    bytes: u64,
}

/// A guard that the task of a request holds until the request ends.
#[derive(Debug)]
pub struct RunGuard(Arc<Request>);

impl PrincipalAccounts {
    /// Begins a request of a connected client. Returns two guards, one for the client's side and
    /// one for the task that runs the request.
    pub fn attach(self: &Arc<Self>, principal: Option<&str>) -> (Attachment, RunGuard) {
        let request = Arc::new(Request {
            accounts: Arc::clone(self),
            principal: principal.map(str::to_owned),
            state: Mutex::new(State::Attached),
        });
        (Attachment(Arc::clone(&request)), RunGuard(request))
    }

    /// Begins a request like [`attach`](Self::attach), but if the client disconnects, the request
    /// always continues, even above the limits on detached requests. The caller must reject the
    /// request if the account [is full](Self::is_full), so that at most one request per connection
    /// exceeds the limits.
    pub fn commit(
        self: &Arc<Self>,
        principal: Option<&str>,
        bytes: u64,
    ) -> (CommittedAttachment, RunGuard) {
        let (attachment, run_guard) = self.attach(principal);
        (CommittedAttachment { attachment, bytes }, run_guard)
    }
}

impl Attachment {
    /// Records that the client has disconnected. Returns whether the limits on detached requests
    /// allow the request to continue; otherwise, the caller must cancel the request. `bytes`
    /// returns the memory of the request, in bytes.
    #[must_use]
    pub fn detach(&self, bytes: impl FnOnce() -> u64) -> bool {
        let request = &self.0;
        let mut state = request.state.lock();
        if !matches!(*state, State::Attached) {
            return true;
        }
        let usage = Usage::for_request(bytes());
        let principal = request.principal.as_deref();
        let Some(reservation) = request.accounts.try_reserve(principal, usage) else {
            return false;
        };
        *state = State::Detached(reservation);
        true
    }
}

impl Drop for CommittedAttachment {
    fn drop(&mut self) {
        let request = &self.attachment.0;
        let mut state = request.state.lock();
        if matches!(*state, State::Attached) {
            let usage = Usage::for_request(self.bytes);
            let principal = request.principal.as_deref();
            *state = State::Detached(request.accounts.reserve_above_limits(principal, usage));
        }
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        *self.0.state.lock() = State::Ended;
    }
}

#[cfg(test)]
mod tests {
    use super::super::AccountLimits;
    use super::*;

    fn accounts() -> Arc<PrincipalAccounts> {
        let usage = |count, bytes| Usage { count, bytes };
        let (total, principal) = (usage(100, 1_000), usage(2, 100));
        Arc::new(PrincipalAccounts::new(AccountLimits { principal, total }))
    }

    #[test]
    fn a_request_counts_from_the_disconnect_until_it_ends() {
        let accounts = accounts();
        let (alice, bob) = (Some("token:a"), Some("token:b"));
        let (attachment, run) = accounts.attach(alice);
        assert_eq!(accounts.total(), Usage::default());
        assert!(attachment.detach(|| 60));
        assert_eq!(accounts.total(), Usage::for_request(60));
        // Alice's second request does not fit; a request of another principal does.
        let (second, second_run) = accounts.attach(alice);
        assert!(!second.detach(|| 60));
        let (third, third_run) = accounts.attach(bob);
        assert!(third.detach(|| 60));
        drop((run, second_run));
        assert_eq!(accounts.total(), Usage::for_request(60));
        drop(third_run);
        assert_eq!(accounts.total(), Usage::default());
        // A request whose client waits for the response is never detached.
        let (attachment, run) = accounts.attach(alice);
        drop(run);
        assert!(attachment.detach(|| 1_000_000));
        assert_eq!(accounts.total(), Usage::default());
    }

    #[test]
    fn a_request_that_always_continues_reserves_memory_above_the_limit() {
        let accounts = accounts();
        let alice = Some("token:a");
        let requests: Vec<_> = (0..5).map(|_| accounts.commit(alice, 90)).collect();
        assert!(!accounts.is_full(alice));
        let (attachments, runs): (Vec<_>, Vec<_>) = requests.into_iter().unzip();
        drop(attachments);
        assert_eq!(accounts.total().count, 5);
        assert!(accounts.is_full(alice) && !accounts.is_full(None));
        drop(runs);
        assert_eq!(accounts.total(), Usage::default());
        let (attachment, run) = accounts.commit(alice, 90);
        drop(run);
        drop(attachment);
        assert_eq!(accounts.total(), Usage::default());
    }
}
