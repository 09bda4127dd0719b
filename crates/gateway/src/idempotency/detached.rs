//! Requests with an idempotency key whose clients have disconnected: these requests continue, and
//! the limit of connections does not limit them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Number of running detached requests by principal.
#[derive(Debug, Default)]
pub struct DetachedRequests(Mutex<HashMap<Option<String>, usize>>);

/// A request that has not ended.
#[derive(Debug)]
struct Request {
    all: Arc<DetachedRequests>,
    principal: Option<String>,
    state: Mutex<State>,
}

#[derive(Debug, PartialEq)]
enum State {
    /// The client waits for the response.
    Attached,
    /// The client has disconnected.
    Detached,
    Ended,
}

/// ClaimedKey by the client's side of a request. If it is dropped before the request ends, the client has
/// disconnected.
#[derive(Debug)]
pub struct Attachment(Arc<Request>);

/// ClaimedKey by the task that runs a request, until the request ends.
#[derive(Debug)]
pub struct Run(Arc<Request>);

impl DetachedRequests {
    /// Returns the number of running detached requests of this principal.
    pub fn of(&self, principal: Option<&str>) -> usize {
        let all = self.0.lock();
        // A linear search avoids a copy of the name; there are only as many entries as principals.
        let mut all = all.iter();
        all.find(|(of, _)| of.as_deref() == principal)
            .map_or(0, |(_, count)| *count)
    }

    /// Begins a request. Returns the guards of the client's side and of the running task.
    pub fn begin(self: &Arc<Self>, principal: Option<&str>) -> (Attachment, Run) {
        let request = Arc::new(Request {
            all: Arc::clone(self),
            principal: principal.map(str::to_owned),
            state: Mutex::new(State::Attached),
        });
        (Attachment(Arc::clone(&request)), Run(request))
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if *state == State::Attached {
            *state = State::Detached;
            let mut all = self.0.all.0.lock();
            *all.entry(self.0.principal.clone()).or_default() += 1;
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if std::mem::replace(&mut *state, State::Ended) == State::Detached {
            let mut all = self.0.all.0.lock();
            if let Some(count) = all.get_mut(&self.0.principal) {
                *count -= 1;
                if *count == 0 {
                    all.remove(&self.0.principal);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_from_the_disconnect_until_it_finishes() {
        let all = Arc::new(DetachedRequests::default());
        let (alice, bob) = (Some("token:a"), Some("token:b"));
        let (caller, run) = all.begin(alice);
        assert_eq!(all.of(alice), 0);
        drop(caller);
        assert_eq!((all.of(alice), all.of(bob), all.of(None)), (1, 0, 0));
        drop(run);
        assert_eq!(all.of(alice), 0);
        // A request whose client waits for the response is never detached.
        let (caller, run) = all.begin(alice);
        drop(run);
        drop(caller);
        assert!(all.0.lock().is_empty());
    }
}
