//! The sources of the messages that are sent to a client over a stream.

use std::pin::Pin;

use axum::body::Bytes;
use pillion_mcp_client::RpcError;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::Caller;
use super::list_changes::{ChangeReceiver, ListChangeMethod};
use super::outbox::{Outbox, Outgoing};
use super::sessions::Session;
use super::subscriptions::ResourceSubscription;
use pillion_gateway::calling_client::message;

/// A source of the messages that are sent to a client over one stream.
pub(super) trait MessageSource: Send + 'static {
    /// Waits for the next message; returns `None` at the end. Cancel-safe.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// A source whose only message is a response that is still being computed. The source has no
/// message if the future returns `None`.
pub(super) struct PendingResponse(Option<Pin<Box<dyn Future<Output = Option<Bytes>> + Send>>>);

impl PendingResponse {
    pub(super) fn new(response: impl Future<Output = Option<Bytes>> + Send + 'static) -> Self {
        Self(Some(Box::pin(response)))
    }

    /// Returns whether the only message was already returned.
    pub(super) fn is_finished(&self) -> bool {
        self.0.is_none()
    }
}

impl MessageSource for PendingResponse {
    async fn next(&mut self) -> Option<Bytes> {
        let message = self.0.as_mut()?.await;
        self.0 = None;
        message
    }
}

/// The messages of a stream that belong to no request: notifications of a session or subscription,
/// and changes of lists. Ends when `messages` ends or the sidecar stops.
pub(super) struct MessageListener {
    pub(super) messages: mpsc::Receiver<Outgoing>,
    pub(super) changes: ChangeReceiver,
    /// Returns the notification of a change, or `None` if the client did not subscribe to such
    /// changes.
    pub(super) to_message: Box<dyn Fn(ListChangeMethod) -> Option<Bytes> + Send>,
    pub(super) stop_future: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The last message, sent when the sidecar stops.
    pub(super) last_message: Option<Bytes>,
    /// Resource subscriptions that end with the stream.
    pub(super) subscriptions: Vec<ResourceSubscription>,
    /// A sender that keeps `messages` open, because `messages` ends when all senders are dropped.
    pub(super) _open_outbox: Option<Outbox>,
    pub(super) is_finished: bool,
}

impl MessageListener {
    /// Creates the stream of a session for messages that belong to no request.
    pub(super) fn for_session(caller: &Caller, session: &Session) -> Self {
        let list_changes = &caller.mcp.state.list_changes;
        Self {
            messages: session.open_stream(),
            changes: list_changes.listen(&caller.mcp.gateway, &caller.visibility),
            to_message: Box::new(|change| Some(message::outgoing(None, change, &json!({})))),
            stop_future: Box::pin(caller.mcp.state.wait_until_stopped()),
            last_message: None,
            subscriptions: Vec::new(),
            _open_outbox: None,
            is_finished: false,
        }
    }
}

/// A [`MessageListener`] that is still being opened. Opening waits for the upstream servers to
/// accept the subscriptions.
pub(super) struct OpeningListener {
    opening_future: Option<OpeningFuture>,
    listener: Option<MessageListener>,
    /// The ID of the request that opens the listener.
    id: Box<RawValue>,
}

/// The output is the first message, and the source of all further messages.
type OpeningFuture =
    Pin<Box<dyn Future<Output = Result<(Bytes, MessageListener), RpcError>> + Send>>;

impl OpeningListener {
    pub(super) fn new(
        id: Box<RawValue>,
        opening_future: impl Future<Output = Result<(Bytes, MessageListener), RpcError>>
        + Send
        + 'static,
    ) -> Self {
        Self {
            opening_future: Some(Box::pin(opening_future)),
            listener: None,
            id,
        }
    }

    /// Returns the first message, or `None` if the listener is already open. Cancel-safe.
    pub(super) async fn open(&mut self) -> Option<Result<Bytes, RpcError>> {
        let result = self.opening_future.as_mut()?.await;
        self.opening_future = None;
        Some(result.map(|(first_message, listener)| {
            self.listener = Some(listener);
            first_message
        }))
    }
}

impl MessageSource for OpeningListener {
    async fn next(&mut self) -> Option<Bytes> {
        match self.open().await {
            Some(Ok(first_message)) => Some(first_message),
            Some(Err(error)) => Some(message::response(Some(&self.id), &Err(error))),
            None => self.listener.as_mut()?.next().await,
        }
    }
}

impl MessageSource for MessageListener {
    async fn next(&mut self) -> Option<Bytes> {
        while !self.is_finished {
            tokio::select! {
                biased;
                () = &mut self.stop_future => {
                    self.is_finished = true;
                    self.subscriptions.clear();
                    return self.last_message.take();
                }
                message = self.messages.recv() => {
                    self.is_finished = message.is_none();
                    return message.map(|outgoing| outgoing.message);
                }
                change = self.changes.next() => if let Some(message) = (self.to_message)(change) {
                    return Some(message);
                },
            }
        }
        None
    }
}
