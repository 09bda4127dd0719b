//! Handles server-initiated messages.

mod limits;
mod server_requests;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinSet;

use super::callbacks::{
    Callbacks, Notification, ProgressCallback, ProgressNotification, empty_object,
};
use super::jsonrpc::{self, Incoming, RpcRequestId};
use super::on_drop::OnDrop;
use super::result_cache::McpResultCache;
use super::{McpErrorKind, RpcError};
use limits::{PeerLimits, ReservedCapacity};
use server_requests::ServerRequests;

/// Maximum number of notifications that wait for a slow listener; then the oldest are dropped.
const MAX_PENDING_NOTIFICATIONS: usize = 256;

/// The error code for a server that sends too many concurrent requests.
const TOO_MANY_REQUESTS: i64 = -32000;

/// Timeout for sending a response to the server.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The pending response to a server's request.
pub(super) struct PendingResponse {
    /// The reserved capacity of the request, held until the response is sent.
    reserved: ReservedCapacity,
    /// The response message; `None` if the server has cancelled its request.
    message: Pin<Box<dyn Future<Output = Option<Bytes>> + Send>>,
}

/// Handles the messages of one client's server, across reconnections.
pub(super) struct Peer {
    callbacks: Callbacks,
    limits: PeerLimits,
    requests: ServerRequests,
    progress: Mutex<HashMap<RpcRequestId, ProgressCallback>>,
    next_token: AtomicI64,
    notices: broadcast::Sender<Notification>,
    /// The recipients of notifications, by the id of their `subscriptions/listen` request.
    subscribers: Mutex<HashMap<RpcRequestId, mpsc::Sender<Notification>>>,
    results: Arc<McpResultCache>,
    /// Number of messages from the server that were not responses.
    messages: AtomicU64,
}

impl Peer {
    pub(super) fn new(callbacks: Callbacks, results: Arc<McpResultCache>) -> Self {
        Self {
            callbacks,
            results,
            messages: AtomicU64::new(0),
            subscribers: Mutex::default(),
            limits: PeerLimits::new(),
            requests: ServerRequests::default(),
            progress: Mutex::default(),
            next_token: AtomicI64::new(1),
            notices: broadcast::channel(MAX_PENDING_NOTIFICATIONS).0,
        }
    }

    pub(super) fn callbacks(&self) -> &Callbacks {
        &self.callbacks
    }

    /// Returns whether there are listeners for messages outside of responses.
    pub(super) fn listens(&self) -> bool {
        self.callbacks.listen() || self.notices.receiver_count() > 0
    }

    /// Returns a receiver for all later notifications, except progress.
    pub(super) fn notices(&self) -> broadcast::Receiver<Notification> {
        self.notices.subscribe()
    }

    /// Handles a message that is not a response. Delivers a notification at once; for a request of
    /// the server, returns the future response, which the transport sends.
    pub(super) fn handle_message(&self, message: Incoming) -> Option<PendingResponse> {
        if !matches!(message, Incoming::Response { .. }) {
            self.messages.fetch_add(1, Ordering::Relaxed);
        }
        match message {
            Incoming::Response { .. } => None,
            Incoming::Notification { method, params } => {
                let params = params.unwrap_or_else(empty_object);
                self.handle_notification(Notification { method, params });
                None
            }
            Incoming::Request { id, method, params } => self.respond(id, &method, params),
        }
    }

    /// Returns the number of requests and notifications of the server so far.
    pub(super) fn message_count(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    fn respond(
        &self,
        id: Box<RawValue>,
        method: &str,
        params: Option<Box<RawValue>>,
    ) -> Option<PendingResponse> {
        if !PeerLimits::fits_id(&id) {
            self.limits.count_dropped(method);
            return None;
        }
        let bytes = params.as_ref().map_or(0, |params| params.get().len());
        // A `ping` does not wait behind input requests for a user.
        let reserved = (method != "ping").then(|| self.limits.reserve_request(bytes));
        let Some(reserved) = reserved.flatten() else {
            return self.respond_immediately(&id, method);
        };
        let outcome = self.callbacks.respond(method, params);
        let pending = self.requests.add(&id);
        let message = Box::pin(async move {
            let outcome = pending.run(outcome).await?;
            Some(jsonrpc::response(&id, outcome))
        });
        Some(PendingResponse { reserved, message })
    }

    /// Returns the response to a `ping` of the server, or an error for any other request.
    fn respond_immediately(&self, id: &RawValue, method: &str) -> Option<PendingResponse> {
        let Some(reserved) = self.limits.reserve_immediate_response() else {
            self.limits.count_dropped(method);
            return None;
        };
        let outcome = match method {
            "ping" => Ok(serde_json::Map::new().into()),
            _ => Err(RpcError::new(
                TOO_MANY_REQUESTS,
                "Too many requests at once",
            )),
        };
        let message = Box::pin(std::future::ready(Some(jsonrpc::response(id, outcome))));
        Some(PendingResponse { reserved, message })
    }

    fn handle_notification(&self, notice: Notification) {
        let fits = PeerLimits::fits(&notice);
        if notice.method == "notifications/progress" {
            if fits {
                self.handle_progress(&notice.params);
            } else {
                self.limits.count_dropped(&notice.method);
            }
            return;
        }
        if notice.method == "notifications/cancelled" {
            self.handle_cancelled(&notice.params);
        }
        self.results.handle_notification(&notice);
        self.callbacks.notify(&notice);
        if !fits {
            self.limits.count_dropped(&notice.method);
            return;
        }
        match self.subscriber(&notice.params) {
            // A slow subscriber misses notifications, so that the server is not delayed.
            Some(subscriber) => {
                if let Err(mpsc::error::TrySendError::Full(notice)) = subscriber.try_send(notice) {
                    self.limits.count_dropped(&notice.method);
                }
            }
            // Sending fails only if there are no listeners.
            None => drop(self.notices.send(notice)),
        }
    }

    /// Returns the recipient of a notification that belongs to a subscription.
    fn subscriber(&self, params: &RawValue) -> Option<mpsc::Sender<Notification>> {
        #[derive(Deserialize)]
        struct Params {
            #[serde(rename = "_meta")]
            meta: Meta,
        }
        #[derive(Deserialize)]
        struct Meta {
            #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
            subscription_id: RpcRequestId,
        }
        let params: Params = serde_json::from_str(params.get()).ok()?;
        let subscribers = self.subscribers.lock();
        subscribers.get(&params.meta.subscription_id).cloned()
    }

    /// Sends the notifications of a subscription to `sender` until the returned guard is dropped.
    pub(super) fn route(
        self: &Arc<Self>,
        id: RpcRequestId,
        sender: mpsc::Sender<Notification>,
    ) -> OnDrop<impl FnOnce() + use<>> {
        self.subscribers.lock().insert(id.clone(), sender);
        let peer = Arc::clone(self);
        OnDrop::new(move || drop(peer.subscribers.lock().remove(&id)))
    }

    fn handle_cancelled(&self, params: &RawValue) {
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(rename = "requestId", borrow)]
            id: &'a RawValue,
        }
        match serde_json::from_str::<Params<'_>>(params.get()) {
            Ok(Params { id }) => self.requests.cancel(id),
            Err(error) => tracing::debug!(%error, "Skipped an invalid `notifications/cancelled`"),
        }
    }

    fn handle_progress(&self, params: &RawValue) {
        #[derive(Deserialize)]
        struct Params {
            #[serde(rename = "progressToken")]
            token: RpcRequestId,
            #[serde(flatten)]
            progress: ProgressNotification,
        }
        match serde_json::from_str::<Params>(params.get()) {
            Ok(Params { token, progress }) => {
                let callback = self.progress.lock().get(&token).cloned();
                if let Some(callback) = callback {
                    callback(progress);
                }
            }
            Err(error) => tracing::debug!(%error, "Skipped an invalid `notifications/progress`"),
        }
    }

    /// Passes the progress of a request to `callback` until the returned guard is dropped. Also
    /// returns the request's `progressToken`.
    pub(super) fn follow(
        self: &Arc<Self>,
        callback: ProgressCallback,
    ) -> (RpcRequestId, OnDrop<impl FnOnce() + use<>>) {
        let token = RpcRequestId::Number(self.next_token.fetch_add(1, Ordering::Relaxed));
        self.progress.lock().insert(token.clone(), callback);
        let (peer, followed) = (Arc::clone(self), token.clone());
        let guard = OnDrop::new(move || drop(peer.progress.lock().remove(&followed)));
        (token, guard)
    }
}

/// Responses to the server's requests that are being sent. Dropping this value cancels them, so
/// that no response outlives the request or stream that the server's request arrived with.
#[derive(Default)]
pub(super) struct OutgoingResponses(Option<JoinSet<()>>);

impl OutgoingResponses {
    /// Sends a response when it is ready, without blocking the caller.
    pub(super) fn send<F>(
        &mut self,
        response: PendingResponse,
        post: impl FnOnce(Bytes) -> F + Send + 'static,
    ) where
        F: Future<Output = Result<(), McpErrorKind>> + Send,
    {
        let tasks = self.0.get_or_insert_default();
        // Removes the tasks that have finished.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let PendingResponse { reserved, message } = response;
            let _reserved = reserved;
            let Some(message) = message.await else {
                return;
            };
            match tokio::time::timeout(RESPONSE_TIMEOUT, post(message)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::debug!(%error, "The server rejected a response of the client");
                }
                Err(_) => tracing::debug!("Sending a response to the server timed out"),
            }
        });
    }
}

#[cfg(test)]
mod tests;
