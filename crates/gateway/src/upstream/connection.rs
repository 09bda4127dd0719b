//! A connection with a server, which routes requests and log messages of the server to the client
//! that they belong to.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pillion_mcp_client::{Callbacks, McpClient, RpcError, ServerConfig};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::calling_client::link::{self, ClientLink};

/// A connection with a server under one credential: the server's own, or a user's. Connections
/// never share a session, server-initiated messages or tool lists.
#[derive(Debug)]
pub struct UpstreamConnection {
    pub client: McpClient,
    router: Arc<ServerRequestRouter>,
}

impl UpstreamConnection {
    /// Creates a connection with `server`, without I/O.
    pub(super) fn to(server: ServerConfig) -> Self {
        let router = Arc::new(ServerRequestRouter::default());
        Self {
            client: McpClient::with_callbacks(server, router.callbacks()),
            router,
        }
    }

    /// Runs the forwarding of a request, so that server-initiated messages in the meantime reach
    /// the client at `link`. Without a link, they reach no client.
    pub fn during<T>(
        &self,
        link: Option<Arc<ClientLink>>,
        passing: impl Future<Output = T>,
    ) -> impl Future<Output = T> {
        // Boxed, because each future that contains another reserves space for it twice.
        self.router.during(link, Box::pin(passing))
    }
}

tokio::task_local! {
    /// The client request that the current task forwards; `None` for a call without an MCP client.
    static CURRENT: Option<Arc<ClientLink>>;
}

/// The client requests that are in progress on one server, to route server-initiated messages to
/// the client that made the request.
///
/// Over HTTP, a message that belongs to a request arrives in the response stream of that request,
/// and so in its task. A message on another stream names no request: it is routed to a client only
/// if all requests in progress belong to that client. If there are several clients, or calls over
/// REST or in a chat, a request of the server is rejected, because another user must not see it.
#[derive(Debug, Default)]
struct ServerRequestRouter {
    waiting: Mutex<RunningRequests>,
}

#[derive(Debug, Default)]
struct RunningRequests {
    links: Vec<Weak<ClientLink>>,
    /// Number of calls in progress without an MCP client.
    without_link: usize,
}

impl ServerRequestRouter {
    /// Returns the callbacks for the server's requests and notifications, which forward them to the
    /// client that they belong to.
    fn callbacks(self: &Arc<Self>) -> Callbacks {
        let ask = |method: &'static str| {
            let router = Arc::clone(self);
            move |params: Box<RawValue>| {
                // Evaluated now: the future may be polled in another task.
                let link = router.current();
                async move { ask(link, method, params).await }
            }
        };
        let router = Arc::clone(self);
        Callbacks::new()
            .on_sampling(ask("sampling/createMessage"))
            .on_elicitation(ask("elicitation/create"))
            .on_roots(ask("roots/list"))
            .on_notification_without_listening(move |notice| {
                if notice.method == "notifications/message"
                    && let Some(link) = router.current()
                {
                    link.log(&notice.params);
                }
            })
    }

    /// Forwards a request of the client at `link`, or of a caller without an MCP client.
    async fn during<T>(
        &self,
        link: Option<Arc<ClientLink>>,
        passing: impl Future<Output = T>,
    ) -> T {
        let registration = self.register(link.as_ref());
        let outcome = CURRENT.scope(link, passing).await;
        drop(registration);
        outcome
    }

    fn register(&self, link: Option<&Arc<ClientLink>>) -> RequestRegistration<'_> {
        let mut waiting = self.waiting.lock();
        match link {
            Some(link) => waiting.links.push(Arc::downgrade(link)),
            None => waiting.without_link += 1,
        }
        RequestRegistration {
            router: self,
            link: link.map(Arc::downgrade),
        }
    }

    fn current(&self) -> Option<Arc<ClientLink>> {
        match CURRENT.try_with(Option::clone) {
            Ok(current) => current,
            Err(_) => self.only_client(),
        }
    }

    fn only_client(&self) -> Option<Arc<ClientLink>> {
        let waiting = self.waiting.lock();
        if waiting.without_link > 0 {
            return None;
        }
        let mut links = waiting.links.iter().filter_map(Weak::upgrade);
        let first = links.next()?;
        let owner = first.requester.owner;
        links.try_fold(first, |_, link| {
            (link.requester.owner == owner).then_some(link)
        })
    }
}

/// The registration of a request in progress, until dropped.
struct RequestRegistration<'a> {
    router: &'a ServerRequestRouter,
    link: Option<Weak<ClientLink>>,
}

impl Drop for RequestRegistration<'_> {
    fn drop(&mut self) {
        let mut waiting = self.router.waiting.lock();
        let Some(link) = &self.link else {
            waiting.without_link -= 1;
            return;
        };
        if let Some(index) = waiting.links.iter().position(|it| it.ptr_eq(link)) {
            waiting.links.remove(index);
        }
    }
}

async fn ask(
    link: Option<Arc<ClientLink>>,
    method: &str,
    params: Box<RawValue>,
) -> Result<Value, RpcError> {
    match link {
        Some(link) => link.ask(method, params).await,
        None => Err(link::unsupported_method(method)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn link() -> Arc<ClientLink> {
        ClientLink::for_test("{}", json!({}))
    }

    #[tokio::test]
    async fn e7_during_a_call_without_client_a_server_request_has_no_link() {
        let router = ServerRequestRouter::default();
        let alice = link();
        let _alices = router.register(Some(&alice));
        let is_alices =
            |link: Option<Arc<ClientLink>>| link.is_some_and(|it| Arc::ptr_eq(&it, &alice));
        assert!(
            is_alices(router.current()),
            "only Alice has a call at the server"
        );
        let bobs_call = router.during(None, async { (router.current(), router.only_client()) });
        let (in_its_task, elsewhere) = bobs_call.await;
        assert!(in_its_task.is_none(), "the request belongs to Bob's call");
        assert!(elsewhere.is_none(), "the request cannot be attributed");
        assert!(is_alices(router.current()), "Bob's call has ended");
        let bob = link();
        let in_bobs = router.during(Some(Arc::clone(&bob)), async { router.current() });
        assert!(in_bobs.await.is_some_and(|it| Arc::ptr_eq(&it, &bob)));
        {
            let _bobs = router.register(Some(&bob));
            assert!(
                router.current().is_none(),
                "with two clients, the request belongs to neither"
            );
        }
        assert!(is_alices(router.current()));
    }
}
