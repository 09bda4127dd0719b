//! A channel in both directions that carries everybody's messages, as stdio and WebSocket
//! are: requests go out as they come, and responses are told apart by their ids.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::Outgoing;
use super::message_id::MessageId;
use super::waiting::Waiting;
use crate::mcp::McpErrorKind;
use crate::mcp::jsonrpc::{Incoming, RequestId, RpcOutcome};
use crate::mcp::peer::{Answers, Peer};

/// How many messages wait for a server that does not read; who comes then waits as well.
const MOST_QUEUED: usize = 64;

/// The callers' side.
pub(super) struct Duplex {
    waiting: Arc<Waiting>,
    outbox: mpsc::Sender<Queued>,
}

/// The side of the task that writes to the server.
pub(super) struct Outbox {
    waiting: Arc<Waiting>,
    messages: mpsc::Receiver<Queued>,
}

/// The note that a message has left, if somebody asks about it.
pub(super) struct Departure(Option<Arc<AtomicBool>>);

/// The side of the task that reads what the server says.
pub(super) struct Inbox {
    waiting: Arc<Waiting>,
    outbox: mpsc::WeakSender<Queued>,
    peer: Arc<Peer>,
    /// Answers on their way to the server; they end with the connection.
    answers: Answers,
    /// Whether any request has received its result.
    has_answered: bool,
}

enum Queued {
    Message {
        /// The request's id, and the note of its leaving, if it is one.
        request: Option<(RequestId, Arc<AtomicBool>)>,
        message: Bytes,
    },
    /// Nothing more comes.
    End,
}

/// A channel's three sides. Its callers hear of the end as soon as the inbox or the outbox
/// is gone.
pub(super) fn duplex(peer: Arc<Peer>) -> (Duplex, Outbox, Inbox) {
    let waiting = Arc::new(Waiting::new());
    let (outbox, messages) = mpsc::channel(MOST_QUEUED);
    let inbox = Inbox {
        waiting: Arc::clone(&waiting),
        outbox: outbox.downgrade(),
        peer,
        answers: Answers::default(),
        has_answered: false,
    };
    let duplex = Duplex {
        waiting: Arc::clone(&waiting),
        outbox,
    };
    (duplex, Outbox { waiting, messages }, inbox)
}

impl Duplex {
    /// Sends a request and waits for its response.
    ///
    /// # Errors
    /// With what the connection has ended with; [`McpErrorKind::SessionExpired`] when not a
    /// byte of the request has left by then, and it may go over another connection.
    pub(super) async fn exchange(&self, request: Outgoing) -> Result<RpcOutcome, McpErrorKind> {
        let may_go_elsewhere = !request.opens;
        let has_left = Arc::new(AtomicBool::new(false));
        let reply = self.send_and_wait(request, &has_left).await;
        if may_go_elsewhere && reply.is_err() && !has_left.load(Ordering::Acquire) {
            return Err(McpErrorKind::SessionExpired);
        }
        reply
    }

    async fn send_and_wait(
        &self,
        request: Outgoing,
        has_left: &Arc<AtomicBool>,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let mut place = self.waiting.place(&request.id)?;
        let queued = Queued::Message {
            request: Some((request.id.clone(), Arc::clone(has_left))),
            message: request.message,
        };
        tokio::select! {
            biased;
            // The end may come while a server that reads nothing keeps us from sending.
            reply = place.reply() => return reply,
            _ = self.outbox.send(queued) => {}
        }
        // If it could not be sent the connection has ended, and the reply says how.
        place.reply().await
    }

    /// Sends a message that has no response.
    pub(super) async fn notify(&self, message: Bytes) -> Result<(), McpErrorKind> {
        let sent = self.outbox.send(Queued::notice(message)).await;
        sent.map_err(|_| McpErrorKind::StreamClosed)
    }

    /// Lets the writing task end once it has written what waits.
    pub(super) async fn end(&self) {
        let _ = self.outbox.send(Queued::End).await;
    }

    pub(super) fn is_open(&self) -> bool {
        self.waiting.is_open()
    }
}

impl Queued {
    /// A message that nobody waits for the response to.
    fn notice(message: Bytes) -> Self {
        let request = None;
        Self::Message { request, message }
    }
}

impl Departure {
    fn of(request: Option<(RequestId, Arc<AtomicBool>)>) -> Self {
        Self(request.map(|(_, has_left)| has_left))
    }

    /// Not a byte of the message could be written, so that it may be sent elsewhere.
    pub(super) fn undo(&self) {
        if let Some(has_left) = &self.0 {
            has_left.store(false, Ordering::Release);
        }
    }
}

impl Outbox {
    /// The next message to write, or none when the connection is to end.
    pub(super) async fn next(&mut self) -> Option<(Bytes, Departure)> {
        loop {
            match self.messages.recv().await? {
                Queued::Message { request, message } if self.may_leave(request.as_ref()) => {
                    return Some((message, Departure::of(request)));
                }
                Queued::Message { .. } => {}
                Queued::End => return None,
            }
        }
    }

    /// A message that can be written at once together with the one before it.
    pub(super) fn next_waiting(&mut self) -> Option<(Bytes, Departure)> {
        match self.messages.try_recv().ok()? {
            Queued::Message { request, message } => self
                .may_leave(request.as_ref())
                .then(|| (message, Departure::of(request))),
            Queued::End => {
                self.messages.close();
                None
            }
        }
    }

    /// Whether a message is to be written: the caller of a request may have gone since.
    fn may_leave(&self, request: Option<&(RequestId, Arc<AtomicBool>)>) -> bool {
        let Some((id, has_left)) = request else {
            return true;
        };
        // First the note: once it is taken for written nobody may send it again.
        has_left.store(true, Ordering::Release);
        self.waiting.has(id)
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.waiting.close(|| McpErrorKind::StreamClosed);
    }
}

impl Inbox {
    /// Takes what the server said: one message, or a batch. What is no JSON-RPC is left
    /// out, unless it can be seen to be the response that somebody waits for.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        if bytes.trim_ascii().is_empty() {
            return;
        }
        let parsed = match std::str::from_utf8(bytes) {
            Ok(text) => Incoming::parse(text).map_err(McpErrorKind::InvalidMessage),
            Err(_) => Err(McpErrorKind::InvalidUtf8),
        };
        match parsed {
            Ok(messages) => messages
                .into_iter()
                .for_each(|message| self.dispatch(message)),
            Err(error) => {
                let bytes_read = bytes.len();
                tracing::debug!(%error, bytes_read, "The server said something that is no JSON-RPC");
                if let Some(id) = MessageId::of(bytes) {
                    self.waiting.reply(&id, Err(error));
                }
            }
        }
    }

    /// Takes note of a message that was larger than `limit` bytes. Its caller is told; when
    /// it has no id and one caller waits, it was that one's.
    pub(super) fn take_too_large(&self, id: Option<RequestId>, limit: usize) {
        tracing::debug!(limit, "The server said something larger than allowed");
        if let Some(id) = id.or_else(|| self.waiting.only()) {
            self.waiting
                .reply(&id, Err(McpErrorKind::TooLarge { limit }));
        }
    }

    /// Returns whether any request has received its result.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Tells all callers how the connection has ended.
    pub(super) fn close(&self, ending: impl Fn() -> McpErrorKind + Send + Sync + 'static) {
        self.waiting.close(ending);
    }

    /// Takes a request that no server makes. Where it is our own, come back, the other end
    /// is no server: it would send back an answer of ours as well, which would then pass for
    /// the server's.
    fn take_echo(&self, id: &RawValue, method: &str) {
        let id: Option<RequestId> = serde_json::from_str(id.get()).ok();
        if !id.is_some_and(|id| self.waiting.reply(&id, Err(McpErrorKind::Echo))) {
            tracing::debug!(method, "The server asks what only clients ask");
        }
    }

    fn dispatch(&mut self, message: Incoming) {
        match message {
            Incoming::Response { id, outcome } => {
                self.has_answered |= outcome.is_ok();
                // An error without an id could be anybody's: it might end a good call.
                if !self.waiting.reply(&id, Ok(outcome)) {
                    tracing::debug!(?id, "The server answered what nobody asks any more");
                }
            }
            Incoming::Request { id, method, .. } if only_clients_ask(&method) => {
                self.take_echo(&id, &method);
            }
            other => {
                let (Some(answer), Some(outbox)) = (self.peer.hear(other), self.outbox.upgrade())
                else {
                    return;
                };
                self.answers.send(answer, move |message| async move {
                    let sent = outbox.send(Queued::notice(message)).await;
                    sent.map_err(|_| McpErrorKind::StreamClosed)
                });
            }
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.waiting.close(|| McpErrorKind::StreamClosed);
    }
}

/// Whether a method is one that servers answer, in every revision.
fn only_clients_ask(method: &str) -> bool {
    let kind = method.split('/').next();
    matches!(
        kind,
        Some(
            "initialize"
                | "server"
                | "tools"
                | "resources"
                | "prompts"
                | "completion"
                | "logging"
                | "subscriptions"
        )
    )
}
