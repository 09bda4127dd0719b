//! Handles server-initiated messages.

mod limits;
mod server_requests;

use std::collections::HashMap;
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
use super::message::{self, IncomingMessage, RpcRequestId};
use super::on_drop::OnDrop;
use super::result_cache::McpResultCache;
use super::{McpErrorKind, RpcError};
use limits::{MAX_CONCURRENT_REQUESTS, MAX_REQUEST_KIB, PeerLimits, ReservedCapacity};
use server_requests::ServerRequests;

/// Maximum number of notifications that wait for a slow receiver. When exceeded, the oldest waiting
/// notifications are dropped.
const MAX_PENDING_NOTIFICATIONS: usize = 256;

/// The error code for a server that sends too many concurrent requests.
const TOO_MANY_REQUESTS: i64 = -32000;

/// Timeout for sending a response to the server.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The pending response to a server's request.
pub(super) struct PendingResponse {
    /// The reserved capacity of the request, held until the response is sent.
    capacity: ReservedCapacity,
    /// The response message; `None` if the server has cancelled its request.
    message: Pin<Box<dyn Future<Output = Option<Bytes>> + Send>>,
}

/// Handles the messages of one client's server, across reconnections.
pub(super) struct Peer {
    callbacks: Callbacks,
    limits: PeerLimits,
    server_requests: ServerRequests,
    progress_callbacks: Mutex<HashMap<RpcRequestId, ProgressCallback>>,
    next_token: AtomicI64,
    notifications: broadcast::Sender<Notification>,
    /// The recipients of notifications, by the ID of their `subscriptions/listen` request.
    subscribers: Mutex<HashMap<RpcRequestId, mpsc::Sender<Notification>>>,
    result_cache: Arc<McpResultCache>,
    /// Number of requests and notifications that the server has sent.
    message_count: AtomicU64,
}

impl Peer {
    pub(super) fn new(callbacks: Callbacks, result_cache: Arc<McpResultCache>) -> Self {
        Self {
            callbacks,
            result_cache,
            message_count: AtomicU64::new(0),
            subscribers: Mutex::default(),
            limits: PeerLimits::new(),
            server_requests: ServerRequests::default(),
            progress_callbacks: Mutex::default(),
            next_token: AtomicI64::new(1),
            notifications: broadcast::channel(MAX_PENDING_NOTIFICATIONS).0,
        }
    }

    pub(super) fn callbacks(&self) -> &Callbacks {
        &self.callbacks
    }

    /// Returns whether a callback or a subscription needs messages that the server sends outside of
    /// responses.
    pub(super) fn needs_listening(&self) -> bool {
        self.callbacks.needs_listening() || self.notifications.receiver_count() > 0
    }

    /// Returns a receiver for all later notifications, except progress.
    pub(super) fn subscribe_to_notifications(&self) -> broadcast::Receiver<Notification> {
        self.notifications.subscribe()
    }

    /// Handles a message that is not a response. Delivers a notification at once. For a request of
    /// the server, returns the pending response, which the transport must send.
    pub(super) fn handle_message(&self, message: IncomingMessage) -> Option<PendingResponse> {
        if !matches!(message, IncomingMessage::Response { .. }) {
            self.message_count.fetch_add(1, Ordering::Relaxed);
        }
        match message {
            IncomingMessage::Response { .. } => None,
            IncomingMessage::Notification { method, params } => {
                let params = params.unwrap_or_else(empty_object);
                self.handle_notification(Notification { method, params });
                None
            }
            IncomingMessage::Request { id, method, params } => self.respond(id, &method, params),
        }
    }

    /// Returns the number of requests and notifications that the server has sent.
    pub(super) fn message_count(&self) -> u64 {
        self.message_count.load(Ordering::Relaxed)
    }

    fn respond(
        &self,
        id: Box<RawValue>,
        method: &str,
        params: Option<Box<RawValue>>,
    ) -> Option<PendingResponse> {
        if !PeerLimits::is_id_within_limit(&id) {
            self.limits.count_dropped(method);
            return None;
        }
        let params_bytes = params.as_ref().map_or(0, |params| params.get().len());
        // A `ping` gets its response at once and needs no capacity, because the capacity may be
        // taken by input requests that wait for a user.
        let capacity = (method != "ping")
            .then(|| self.limits.reserve_request(params_bytes))
            .flatten();
        let Some(capacity) = capacity else {
            return self.respond_immediately(&id, method);
        };
        let response = self.callbacks.respond(method, params);
        let pending_request = self.server_requests.add(&id);
        let message = Box::pin(async move {
            let outcome = pending_request.run(response).await?;
            Some(message::encode_response(&id, outcome))
        });
        Some(PendingResponse { capacity, message })
    }

    /// Returns the response to a `ping` of the server, or an error for any other request.
    fn respond_immediately(&self, id: &RawValue, method: &str) -> Option<PendingResponse> {
        let Some(capacity) = self.limits.reserve_immediate_response() else {
            self.limits.count_dropped(method);
            return None;
        };
        let outcome = match method {
            "ping" => Ok(serde_json::Map::new().into()),
            _ => Err(RpcError::new(
                TOO_MANY_REQUESTS,
                format!(
                    "The client processes at most {MAX_CONCURRENT_REQUESTS} requests with \
                    {MAX_REQUEST_KIB} KiB at once"
                ),
            )),
        };
        let response = message::encode_response(id, outcome);
        let message = Box::pin(std::future::ready(Some(response)));
        Some(PendingResponse { capacity, message })
    }

    fn handle_notification(&self, notification: Notification) {
        let is_within_limit = PeerLimits::is_within_limit(&notification);
        if notification.method == "notifications/progress" {
            if is_within_limit {
                self.handle_progress(&notification.params);
            } else {
                self.limits.count_dropped(&notification.method);
            }
            return;
        }
        if notification.method == "notifications/cancelled" {
            self.handle_cancelled(&notification.params);
        }
        self.result_cache.handle_notification(&notification);
        self.callbacks.notify(&notification);
        if !is_within_limit {
            self.limits.count_dropped(&notification.method);
            return;
        }
        match self.find_subscriber(&notification.params) {
            // A slow subscriber misses notifications, so that the server is not delayed.
            Some(subscriber) => {
                if let Err(mpsc::error::TrySendError::Full(notification)) =
                    subscriber.try_send(notification)
                {
                    self.limits.count_dropped(&notification.method);
                }
            }
            // The outcome is ignored, because sending fails only if there are no receivers.
            None => drop(self.notifications.send(notification)),
        }
    }

    /// Returns the recipient of a notification that belongs to a subscription.
    fn find_subscriber(&self, params: &RawValue) -> Option<mpsc::Sender<Notification>> {
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
    pub(super) fn route_notifications(
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
            Ok(Params { id }) => self.server_requests.cancel(id),
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
                let callback = self.progress_callbacks.lock().get(&token).cloned();
                if let Some(callback) = callback {
                    callback(progress);
                }
            }
            Err(error) => tracing::debug!(%error, "Skipped an invalid `notifications/progress`"),
        }
    }

    /// Passes the progress of a request to `callback` until the returned guard is dropped. Also
    /// returns the request's `progressToken`.
    pub(super) fn track_progress(
        self: &Arc<Self>,
        callback: ProgressCallback,
    ) -> (RpcRequestId, OnDrop<impl FnOnce() + use<>>) {
        let token = RpcRequestId::Number(self.next_token.fetch_add(1, Ordering::Relaxed));
        self.progress_callbacks
            .lock()
            .insert(token.clone(), callback);
        let (peer, guard_token) = (Arc::clone(self), token.clone());
        let guard = OnDrop::new(move || drop(peer.progress_callbacks.lock().remove(&guard_token)));
        (token, guard)
    }
}

/// Responses that are being sent to the server. Dropping this value cancels the responses, so that
/// no response outlives the request or stream that the server's request arrived with.
#[derive(Default)]
pub(super) struct OutgoingResponses(Option<JoinSet<()>>);

impl OutgoingResponses {
    /// Sends a response when it is ready, without blocking the caller.
    pub(super) fn send<F: Future<Output = Result<(), McpErrorKind>> + Send>(
        &mut self,
        response: PendingResponse,
        send_message: impl FnOnce(Bytes) -> F + Send + 'static,
    ) {
        let tasks = self.0.get_or_insert_default();
        // Removes the tasks that have finished.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let PendingResponse { capacity, message } = response;
            let _capacity = capacity;
            let Some(message) = message.await else {
                return;
            };
            match tokio::time::timeout(RESPONSE_TIMEOUT, send_message(message)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::debug!(%error, "Cannot send a response to the server");
                }
                Err(_) => tracing::debug!("Sending a response to the server timed out"),
            }
        });
    }
}

#[cfg(test)]
mod tests;
