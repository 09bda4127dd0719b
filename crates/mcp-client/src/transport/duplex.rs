//! A bidirectional channel that multiplexes messages, for stdio and WebSocket. Responses are
//! matched to requests by id.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::SerializedRequest;
use super::pending_requests::PendingRequests;
use crate::McpErrorKind;
use crate::jsonrpc::{Incoming, MessageLine, RpcOutcome, RpcRequestId};
use crate::peer::{OutgoingResponses, Peer};

/// Maximum number of messages that wait for a server that does not read; further callers wait, too.
const MAX_QUEUED: usize = 64;

/// The end of a channel that callers use to send requests.
pub(super) struct Duplex {
    pending: Arc<PendingRequests>,
    outbox: mpsc::Sender<OutboundMessage>,
}

/// The end of a channel that the task uses which writes to the server.
pub(super) struct DuplexOutbox {
    pending: Arc<PendingRequests>,
    messages: mpsc::Receiver<OutboundMessage>,
}

/// A flag that records whether a request was written, if the caller needs to know.
pub(super) struct WriteMarker(Option<Arc<AtomicBool>>);

/// The end of a channel that the task uses which reads from the server.
pub(super) struct DuplexInbox {
    pending: Arc<PendingRequests>,
    outbox: mpsc::WeakSender<OutboundMessage>,
    peer: Arc<Peer>,
    /// Responses to the server's requests that are being sent; dropped with the connection.
    responses: OutgoingResponses,
    /// Whether any request has received its result.
    has_answered: bool,
    server: Arc<str>,
    /// Whether a warning about output that is not JSON-RPC was logged.
    has_warned: bool,
}

enum OutboundMessage {
    Message {
        /// If the message is a request: its id, and the flag that records whether it was written.
        request: Option<(RpcRequestId, Arc<AtomicBool>)>,
        message: Bytes,
    },
    /// Ends the writing task.
    End,
}

/// Creates the three ends of a channel. Callers get an error as soon as the inbox or the outbox is
/// dropped.
pub(super) fn duplex(peer: Arc<Peer>, server: &Arc<str>) -> (Duplex, DuplexOutbox, DuplexInbox) {
    let pending = Arc::new(PendingRequests::new());
    let (outbox, messages) = mpsc::channel(MAX_QUEUED);
    let inbox = DuplexInbox {
        pending: Arc::clone(&pending),
        outbox: outbox.downgrade(),
        peer,
        responses: OutgoingResponses::default(),
        has_answered: false,
        server: Arc::clone(server),
        has_warned: false,
    };
    let duplex = Duplex {
        pending: Arc::clone(&pending),
        outbox,
    };
    (duplex, DuplexOutbox { pending, messages }, inbox)
}

impl Duplex {
    /// Sends a request and waits for its response.
    ///
    /// # Errors
    /// The reason why the connection ended; [`McpErrorKind::SessionExpired`] if no byte of the
    /// request was written, so that the request may be sent over another connection.
    pub(super) async fn exchange(
        &self,
        request: SerializedRequest,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let may_use_another_connection = !request.opens;
        let was_written = Arc::new(AtomicBool::new(false));
        let reply = self.send_and_wait(request, &was_written).await;
        if may_use_another_connection && reply.is_err() && !was_written.load(Ordering::Acquire) {
            return Err(McpErrorKind::SessionExpired);
        }
        reply
    }

    async fn send_and_wait(
        &self,
        request: SerializedRequest,
        was_written: &Arc<AtomicBool>,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let mut registered = self.pending.register(&request.id)?;
        let queued = OutboundMessage::Message {
            request: Some((request.id.clone(), Arc::clone(was_written))),
            message: request.message,
        };
        tokio::select! {
            biased;
            // The connection may end while sending waits for a server that does not read.
            reply = registered.reply() => return reply,
            _ = self.outbox.send(queued) => {}
        }
        // If sending failed, the connection has ended, and the reply contains the reason.
        registered.reply().await
    }

    /// Sends a message without a response.
    pub(super) async fn notify(&self, message: Bytes) -> Result<(), McpErrorKind> {
        self.outbox
            .send(OutboundMessage::notice(message))
            .await
            .map_err(|_| McpErrorKind::StreamClosed)
    }

    /// Ends the writing task after it has written all waiting messages.
    pub(super) async fn end(&self) {
        let _ = self.outbox.send(OutboundMessage::End).await;
    }

    pub(super) fn is_open(&self) -> bool {
        self.pending.is_open()
    }
}

impl OutboundMessage {
    /// Wraps a message that expects no response.
    fn notice(message: Bytes) -> Self {
        let request = None;
        Self::Message { request, message }
    }
}

impl WriteMarker {
    fn for_request(request: Option<(RpcRequestId, Arc<AtomicBool>)>) -> Self {
        Self(request.map(|(_, was_written)| was_written))
    }

    /// Marks the message as not written at all, so that it may be sent over another connection.
    pub(super) fn undo(&self) {
        if let Some(was_written) = &self.0 {
            was_written.store(false, Ordering::Release);
        }
    }
}

impl DuplexOutbox {
    /// Returns the next message to write; `None` when the connection is to end.
    pub(super) async fn next(&mut self) -> Option<(Bytes, WriteMarker)> {
        loop {
            match self.messages.recv().await? {
                OutboundMessage::Message { request, message }
                    if self.should_write(request.as_ref()) =>
                {
                    return Some((message, WriteMarker::for_request(request)));
                }
                OutboundMessage::Message { .. } => {}
                OutboundMessage::End => return None,
            }
        }
    }

    /// Returns a message that can be written together with the previous one.
    pub(super) fn next_waiting(&mut self) -> Option<(Bytes, WriteMarker)> {
        match self.messages.try_recv().ok()? {
            OutboundMessage::Message { request, message } => self
                .should_write(request.as_ref())
                .then(|| (message, WriteMarker::for_request(request))),
            OutboundMessage::End => {
                self.messages.close();
                None
            }
        }
    }

    /// Returns whether to write a message: a request is not written after its caller has given up.
    fn should_write(&self, request: Option<&(RpcRequestId, Arc<AtomicBool>)>) -> bool {
        let Some((id, was_written)) = request else {
            return true;
        };
        // The flag is set before writing, because a request that may have been written must not be
        // sent again.
        was_written.store(true, Ordering::Release);
        self.pending.has(id)
    }
}

impl Drop for DuplexOutbox {
    fn drop(&mut self) {
        self.pending.close(|| McpErrorKind::StreamClosed);
    }
}

impl DuplexInbox {
    /// Handles a line or WebSocket message from the server. Skips everything that is not JSON-RPC,
    /// unless it is recognizable as the response to a waiting request.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        let MessageLine {
            messages,
            has_noise,
            unreadable,
        } = MessageLine::read(bytes);
        if has_noise {
            self.note_noise(bytes.len());
        }
        for message in messages {
            match message {
                // Servers may log the requests that they receive from this client.
                Incoming::Request { method, .. } if has_noise && is_client_method(&method) => {}
                message => self.dispatch(message),
            }
        }
        if let Some((id, error)) = unreadable {
            self.pending.reply(&id, Err(error));
        }
    }

    /// Logs that the server wrote output that is not JSON-RPC. The log does not contain the output,
    /// which may contain credentials.
    fn note_noise(&mut self, bytes_read: usize) {
        if self.has_warned {
            tracing::debug!(bytes_read, "Skipped server output that is not JSON-RPC");
            return;
        }
        self.has_warned = true;
        let server = &*self.server;
        tracing::warn!(
            mcp.server = server,
            bytes_read,
            "MCP server `{server}` writes other text between its JSON-RPC messages; Pillion skips \
            the text"
        );
    }

    /// Handles a message larger than `limit` bytes: fails the request that the message responds to.
    /// If the message has no id and exactly one request is waiting, fails that one.
    pub(super) fn handle_too_large(&self, id: Option<RpcRequestId>, limit: usize) {
        tracing::debug!(limit, "Skipped a server message above the size limit");
        if let Some(id) = id.or_else(|| self.pending.only()) {
            self.pending
                .reply(&id, Err(McpErrorKind::TooLarge { limit }));
        }
    }

    /// Returns whether any request has received its result.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Fails all waiting requests with the reason why the connection ended.
    pub(super) fn close(&self, close_error: impl Fn() -> McpErrorKind + Send + Sync + 'static) {
        self.pending.close(close_error);
    }

    /// Handles a request that only clients send. If the request is this client's own, the other end
    /// is an echo: it would also echo responses, which would then look like the server's.
    fn handle_client_method(&self, id: &RawValue, method: &str) {
        let id: Option<RpcRequestId> = serde_json::from_str(id.get()).ok();
        if !id.is_some_and(|id| self.pending.reply(&id, Err(McpErrorKind::Echo))) {
            tracing::debug!(
                method,
                "Skipped a server request with a method that only clients may call"
            );
        }
    }

    fn dispatch(&mut self, message: Incoming) {
        match message {
            Incoming::Response { id, outcome } => {
                self.has_answered |= outcome.is_ok();
                // An error without an id could belong to any request, so no request may fail with
                // it.
                if !self.pending.reply(&id, Ok(outcome)) {
                    tracing::debug!(?id, "Skipped a response without a waiting request");
                }
            }
            Incoming::Request { id, method, .. } if is_client_method(&method) => {
                self.handle_client_method(&id, &method);
            }
            other => {
                let (Some(response), Some(outbox)) =
                    (self.peer.handle_message(other), self.outbox.upgrade())
                else {
                    return;
                };
                self.responses.send(response, move |message| async move {
                    let sent = outbox.send(OutboundMessage::notice(message)).await;
                    sent.map_err(|_| McpErrorKind::StreamClosed)
                });
            }
        }
    }
}

impl Drop for DuplexInbox {
    fn drop(&mut self) {
        self.pending.close(|| McpErrorKind::StreamClosed);
    }
}

/// Returns whether only clients send this method, in all revisions.
fn is_client_method(method: &str) -> bool {
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
