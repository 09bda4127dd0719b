//! A bidirectional channel that multiplexes messages, for stdio and WebSocket. Responses are
//! matched to requests by ID.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::SerializedRequest;
use super::pending_requests::PendingRequests;
use crate::McpErrorKind;
use crate::message::{IncomingMessage, MessageLine, RpcOutcome, RpcRequestId};
use crate::peer::{OutgoingResponses, Peer};

/// Maximum number of messages that wait for a server that does not read; further callers wait, too.
const MAX_QUEUED_MESSAGES: usize = 64;

/// Sends requests and other messages to the server, on behalf of callers.
pub(super) struct Duplex {
    pending_requests: Arc<PendingRequests>,
    outbox: mpsc::Sender<OutboundMessage>,
}

/// Receives the messages to the server, for the task that writes them.
pub(super) struct DuplexOutbox {
    pending_requests: Arc<PendingRequests>,
    messages: mpsc::Receiver<OutboundMessage>,
}

/// Records whether a request was written; `None` for a message without a response. A request that
/// was not written can be sent over another connection.
pub(super) struct WriteMarker(Option<Arc<AtomicBool>>);

/// Handles the messages from the server, for the task that reads them.
pub(super) struct DuplexInbox {
    pending_requests: Arc<PendingRequests>,
    outbox: mpsc::WeakSender<OutboundMessage>,
    peer: Arc<Peer>,
    /// Responses to the server's requests that are being sent; dropped with the connection.
    responses: OutgoingResponses,
    /// Whether any request on this channel has received its result.
    has_responded: bool,
    server: Arc<str>,
    /// Whether a warning about output that is not JSON-RPC was logged.
    has_warned: bool,
}

enum OutboundMessage {
    Message {
        /// The ID of a request, and the flag that records whether the request was written; `None`
        /// for other messages.
        request: Option<(RpcRequestId, Arc<AtomicBool>)>,
        message: Bytes,
    },
    /// Ends the writing task.
    EndWriting,
}

/// Creates the three parts of a channel. Callers get an error as soon as the inbox or the outbox is
/// dropped.
pub(super) fn create_duplex(
    peer: Arc<Peer>,
    server: &Arc<str>,
) -> (Duplex, DuplexOutbox, DuplexInbox) {
    let pending_requests = Arc::new(PendingRequests::new());
    let (outbox, messages) = mpsc::channel(MAX_QUEUED_MESSAGES);
    let inbox = DuplexInbox {
        pending_requests: Arc::clone(&pending_requests),
        outbox: outbox.downgrade(),
        peer,
        responses: OutgoingResponses::default(),
        has_responded: false,
        server: Arc::clone(server),
        has_warned: false,
    };
    let duplex = Duplex {
        pending_requests: Arc::clone(&pending_requests),
        outbox,
    };
    let duplex_outbox = DuplexOutbox {
        pending_requests,
        messages,
    };
    (duplex, duplex_outbox, inbox)
}

impl Duplex {
    /// Sends a request and waits for its response.
    ///
    /// # Errors
    /// The reason why the connection ended; [`McpErrorKind::SessionExpired`] if no byte of the
    /// request was written, so that the request can be sent over another connection.
    pub(super) async fn exchange(
        &self,
        request: SerializedRequest,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let can_use_another_connection = !request.opens_session;
        let was_written = Arc::new(AtomicBool::new(false));
        let reply = self.send_and_wait(request, &was_written).await;
        if can_use_another_connection && reply.is_err() && !was_written.load(Ordering::Acquire) {
            return Err(McpErrorKind::SessionExpired);
        }
        reply
    }

    async fn send_and_wait(
        &self,
        request: SerializedRequest,
        was_written: &Arc<AtomicBool>,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let mut pending_request = self.pending_requests.register(&request.id)?;
        let message = OutboundMessage::Message {
            request: Some((request.id.clone(), Arc::clone(was_written))),
            message: request.message,
        };
        tokio::select! {
            biased;
            // The reply is awaited already while the request is being sent, because the connection
            // may end while sending waits for a server that does not read.
            reply = pending_request.wait_for_reply() => return reply,
            _ = self.outbox.send(message) => {}
        }
        // If sending failed, the connection has ended, and the reply contains the reason.
        pending_request.wait_for_reply().await
    }

    /// Sends a message that expects no response.
    pub(super) async fn notify(&self, message: Bytes) -> Result<(), McpErrorKind> {
        self.outbox
            .send(OutboundMessage::without_response(message))
            .await
            .map_err(|_| McpErrorKind::StreamClosed)
    }

    /// Ends the writing task after it has written all waiting messages.
    pub(super) async fn end_writing(&self) {
        let _ = self.outbox.send(OutboundMessage::EndWriting).await;
    }

    pub(super) fn is_open(&self) -> bool {
        self.pending_requests.is_open()
    }
}

impl OutboundMessage {
    /// Wraps a message for the writing task. The message expects no response.
    fn without_response(message: Bytes) -> Self {
        let request = None;
        Self::Message { request, message }
    }
}

impl WriteMarker {
    fn for_request(request: Option<(RpcRequestId, Arc<AtomicBool>)>) -> Self {
        Self(request.map(|(_, was_written)| was_written))
    }

    /// Marks the message as not written at all, so that the message can be sent over another
    /// connection.
    pub(super) fn mark_unwritten(&self) {
        if let Some(was_written) = &self.0 {
            was_written.store(false, Ordering::Release);
        }
    }
}

impl DuplexOutbox {
    /// Returns the next message to write; `None` when the connection is to end.
    pub(super) async fn next_message(&mut self) -> Option<(Bytes, WriteMarker)> {
        loop {
            match self.messages.recv().await? {
                OutboundMessage::Message { request, message }
                    if self.mark_for_writing(request.as_ref()) =>
                {
                    return Some((message, WriteMarker::for_request(request)));
                }
                OutboundMessage::Message { .. } => {}
                OutboundMessage::EndWriting => return None,
            }
        }
    }

    /// Returns the next message if one is already waiting, so that it can be written together with
    /// the previous message.
    pub(super) fn try_next_message(&mut self) -> Option<(Bytes, WriteMarker)> {
        match self.messages.try_recv().ok()? {
            OutboundMessage::Message { request, message } => self
                .mark_for_writing(request.as_ref())
                .then(|| (message, WriteMarker::for_request(request))),
            OutboundMessage::EndWriting => {
                self.messages.close();
                None
            }
        }
    }

    /// Marks a message as written, and returns whether to write the message. Returns `false` for a
    /// request whose caller has given up.
    fn mark_for_writing(&self, request: Option<&(RpcRequestId, Arc<AtomicBool>)>) -> bool {
        let Some((id, was_written)) = request else {
            return true;
        };
        // The flag is set before writing, because a request that may have been written must not be
        // sent again.
        was_written.store(true, Ordering::Release);
        self.pending_requests.is_waiting(id)
    }
}

impl Drop for DuplexOutbox {
    fn drop(&mut self) {
        self.pending_requests.close(|| McpErrorKind::StreamClosed);
    }
}

impl DuplexInbox {
    /// Handles a line or WebSocket message from the server. Skips everything that is not JSON-RPC,
    /// unless it is recognizable as the response to a waiting request.
    pub(super) fn handle_output(&mut self, bytes: &[u8]) {
        let MessageLine {
            messages,
            has_other_text,
            unreadable_response,
        } = MessageLine::read(bytes);
        if has_other_text {
            self.log_other_text(bytes.len());
        }
        for message in messages {
            match message {
                // A request that only clients send is skipped if the output contains other text,
                // because a server may log the requests that it receives from this client.
                IncomingMessage::Request { method, .. }
                    if has_other_text && is_client_method(&method) => {}
                message => self.handle_message(message),
            }
        }
        if let Some((id, error)) = unreadable_response {
            self.pending_requests.deliver_reply(&id, Err(error));
        }
    }

    /// Logs that the server wrote output that is not JSON-RPC. The log does not contain the output,
    /// which may contain credentials.
    fn log_other_text(&mut self, bytes_read: usize) {
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

    /// Handles a message larger than `limit` bytes by failing the request to which the message
    /// responds. If the message has no ID and exactly one request is waiting, fails the waiting
    /// request.
    pub(super) fn handle_too_large(&self, id: Option<RpcRequestId>, limit: usize) {
        tracing::debug!(limit, "Skipped a server message of more than {limit} bytes");
        if let Some(id) = id.or_else(|| self.pending_requests.single_id()) {
            self.pending_requests
                .deliver_reply(&id, Err(McpErrorKind::TooLarge { limit }));
        }
    }

    /// Returns whether any request on this channel has received its result.
    pub(super) fn has_responded(&self) -> bool {
        self.has_responded
    }

    /// Fails all waiting requests with the reason why the connection ended.
    pub(super) fn close(&self, close_error: impl Fn() -> McpErrorKind + Send + Sync + 'static) {
        self.pending_requests.close(close_error);
    }

    /// Handles a request with a method that only clients send. If the request has the ID of a
    /// waiting request of this client, the other end echoes its input. The waiting request then
    /// fails, because echoed responses would look like responses of the server.
    fn handle_client_method(&self, id: &RawValue, method: &str) {
        let request_id: Option<RpcRequestId> = serde_json::from_str(id.get()).ok();
        if !request_id.is_some_and(|id| {
            self.pending_requests
                .deliver_reply(&id, Err(McpErrorKind::Echo))
        }) {
            tracing::debug!(
                method,
                "Skipped a server request with a method that only clients may call"
            );
        }
    }

    fn handle_message(&mut self, message: IncomingMessage) {
        match message {
            IncomingMessage::Response { id, outcome } => {
                self.has_responded |= outcome.is_ok();
                // An error without an ID fails no request, because the error could belong to any
                // request.
                if !self.pending_requests.deliver_reply(&id, Ok(outcome)) {
                    tracing::debug!(?id, "Skipped a response without a waiting request");
                }
            }
            IncomingMessage::Request { id, method, .. } if is_client_method(&method) => {
                self.handle_client_method(&id, &method);
            }
            message => {
                let (Some(response), Some(outbox)) =
                    (self.peer.handle_message(message), self.outbox.upgrade())
                else {
                    return;
                };
                self.responses.send(response, move |message| async move {
                    let outcome = outbox
                        .send(OutboundMessage::without_response(message))
                        .await;
                    outcome.map_err(|_| McpErrorKind::StreamClosed)
                });
            }
        }
    }
}

impl Drop for DuplexInbox {
    fn drop(&mut self) {
        self.pending_requests.close(|| McpErrorKind::StreamClosed);
    }
}

/// Returns whether only clients send this method, in all revisions.
fn is_client_method(method: &str) -> bool {
    let method_group = method.split('/').next();
    matches!(
        method_group,
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
