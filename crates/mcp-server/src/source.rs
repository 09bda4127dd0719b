//! Sources of the messages of a stream.

use std::pin::Pin;

use axum::body::Bytes;
use pillion_mcp_client::RpcError;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::Caller;
use super::listening::{Change, ChangeReceiver};
use super::outbox::{Outbox, Outgoing};
use super::sessions::Session;
use super::subscriptions::Subscribed;
use pillion_gateway::calling_client::message;

/// A source of the messages that are sent to a client over one stream.
pub(super) trait Source: Send + 'static {
    /// Waits for the next message; returns `None` at the end. Cancel-safe.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// The only message of a response that is still being computed; no message if the future returns
/// `None`.
pub(super) struct PendingResponse(Option<Pin<Box<dyn Future<Output = Option<Bytes>> + Send>>>);

impl PendingResponse {
    pub(super) fn new(response: impl Future<Output = Option<Bytes>> + Send + 'static) -> Self {
        Self(Some(Box::pin(response)))
    }

    /// Returns whether the message was taken.
    pub(super) fn is_finished(&self) -> bool {
        self.0.is_none()
    }
}

impl Source for PendingResponse {
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
    /// Returns the notification of a change, or `None` if the client did not request the change.
    pub(super) to_message: Box<dyn Fn(Change) -> Option<Bytes> + Send>,
    pub(super) stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The last message, sent when the sidecar stops.
    pub(super) last_message: Option<Bytes>,
    /// Resource subscriptions that end with the stream.
    pub(super) subscriptions: Vec<Subscribed>,
    /// A sender of `messages`, which ends when all senders are dropped.
    pub(super) _open: Option<Outbox>,
    pub(super) is_finished: bool,
}

impl MessageListener {
    /// Creates the stream of a session for messages that belong to no request.
    pub(super) fn for_session(caller: &Caller, session: &Session) -> Self {
        Self {
            messages: session.open_stream(),
            changes: caller
                .mcp
                .state
                .listening
                .listen(&caller.mcp.gateway, &caller.visibility),
            to_message: Box::new(|change| Some(message::outgoing(None, change, &json!({})))),
            stopped: Box::pin(caller.mcp.state.stopped()),
            last_message: None,
            subscriptions: Vec::new(),
            _open: None,
            is_finished: false,
        }
    }
}

/// A [`MessageListener`] that is still being opened, because its upstream servers take long.
pub(super) struct OpeningListener {
    opening: Option<Opening>,
    listener: Option<MessageListener>,
    /// The id of the request that opens the listener.
    id: Box<RawValue>,
}

/// The output is the first message, and the source of all further messages.
type Opening = Pin<Box<dyn Future<Output = Result<(Bytes, MessageListener), RpcError>> + Send>>;

impl OpeningListener {
    pub(super) fn new(
        id: Box<RawValue>,
        opening: impl Future<Output = Result<(Bytes, MessageListener), RpcError>> + Send + 'static,
    ) -> Self {
        Self {
            opening: Some(Box::pin(opening)),
            listener: None,
            id,
        }
    }

    /// Returns the first message, or `None` if the listener is already open. Cancel-safe.
    pub(super) async fn open(&mut self) -> Option<Result<Bytes, RpcError>> {
        let opened = self.opening.as_mut()?.await;
        self.opening = None;
        Some(opened.map(|(first, listener)| {
            self.listener = Some(listener);
            first
        }))
    }
}

impl Source for OpeningListener {
    async fn next(&mut self) -> Option<Bytes> {
        match self.open().await {
            Some(Ok(first)) => Some(first),
            Some(Err(error)) => Some(message::response(Some(&self.id), &Err(error))),
            None => self.listener.as_mut()?.next().await,
        }
    }
}

impl Source for MessageListener {
    async fn next(&mut self) -> Option<Bytes> {
        while !self.is_finished {
            tokio::select! {
                biased;
                () = &mut self.stopped => {
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
