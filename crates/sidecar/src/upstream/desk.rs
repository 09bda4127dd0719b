//! Who a server's questions and log messages are for.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pillion_core::mcp::{Callbacks, RpcError};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::mcp_server::link::{self, Link};

tokio::task_local! {
    /// The request that the current task passes on.
    static CURRENT: Arc<Link>;
}

/// The requests that are with one server, for what it says to reach the client that made
/// them.
///
/// Over HTTP what belongs to a request comes with its answer, and so in its task. What comes
/// on another stream says nothing of that: it is for the client whose requests are all that
/// is with the server. Where there are several clients it is nobody's: a question is refused
/// rather than shown to somebody else's user.
#[derive(Debug, Default)]
pub(super) struct Desk {
    waiting: Mutex<Vec<Weak<Link>>>,
}

impl Desk {
    /// What a server is told that it may ask, answered by whoever it is for.
    pub(super) fn callbacks(self: &Arc<Self>) -> Callbacks {
        let ask = |method: &'static str| {
            let desk = Arc::clone(self);
            move |params: Box<RawValue>| {
                // Now: the future may be polled in another task.
                let link = desk.current();
                async move { ask(link, method, params).await }
            }
        };
        let desk = Arc::clone(self);
        Callbacks::new()
            .on_sampling(ask("sampling/createMessage"))
            .on_elicitation(ask("elicitation/create"))
            .on_roots(ask("roots/list"))
            .on_notification_in_passing(move |notice| {
                if notice.method == "notifications/message"
                    && let Some(link) = desk.current()
                {
                    link.log(&notice.params);
                }
            })
    }

    /// Runs what passes a request on.
    pub(super) async fn during<T>(&self, link: Arc<Link>, passing: impl Future<Output = T>) -> T {
        {
            let mut waiting = self.waiting.lock();
            waiting.retain(|link| link.strong_count() > 0);
            waiting.push(Arc::downgrade(&link));
        }
        let seat = Seat {
            desk: self,
            link: Arc::downgrade(&link),
        };
        let outcome = CURRENT.scope(link, passing).await;
        drop(seat);
        outcome
    }

    fn current(&self) -> Option<Arc<Link>> {
        CURRENT
            .try_with(Arc::clone)
            .ok()
            .or_else(|| self.only_client())
    }

    fn only_client(&self) -> Option<Arc<Link>> {
        let waiting = self.waiting.lock();
        let mut links = waiting.iter().filter_map(Weak::upgrade);
        let first = links.next()?;
        let owner = first.requester.owner;
        links.try_fold(first, |_, link| {
            (link.requester.owner == owner).then_some(link)
        })
    }
}

/// A request's place at the desk.
struct Seat<'a> {
    desk: &'a Desk,
    link: Weak<Link>,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut waiting = self.desk.waiting.lock();
        if let Some(place) = waiting.iter().position(|link| link.ptr_eq(&self.link)) {
            waiting.remove(place);
        }
    }
}

async fn ask(
    link: Option<Arc<Link>>,
    method: &str,
    params: Box<RawValue>,
) -> Result<Value, RpcError> {
    match link {
        Some(link) => link.ask(method, params).await,
        None => Err(link::refusal(method)),
    }
}
