//! Transports for messages. A transport sends a request and returns its response, or sends a
//! notification. Server-initiated messages go to the transport's [`Peer`](super::peer::Peer).

mod duplex;
mod event_stream;
mod pending_requests;
mod post;
mod stdio;
mod websocket;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::message::{self, IncomingMessage, MirroredHeaders, RpcOutcome, RpcRequestId};
use super::repeat::RepeatSafety;
use super::session_loss::{SessionLoss, session_loss_of_error};
use super::{McpErrorKind, ProtocolVersion};
pub(super) use event_stream::{EndpointRule, EventStreamTransport};
pub(super) use post::PostTransport;
pub(super) use stdio::{StdioLink, StdioTransport};
pub(super) use websocket::WebSocketTransport;

/// Timeout for checking whether the server knows the session. A server that no longer knows the
/// session rejects the `ping` at once.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// A serialized request, and how a transport has to send it.
pub(super) struct SerializedRequest {
    pub(super) id: RpcRequestId,
    /// The JSON-RPC message, as JSON text.
    pub(super) message: Bytes,
    /// Headers that mirror parts of the message (2026-07-28); only used over HTTP.
    pub(super) mirrored_headers: MirroredHeaders,
    /// Whether the response comes at the end of a long-lived stream, where only the size of single
    /// events is limited.
    pub(super) is_endless: bool,
    /// Whether the request is part of opening the connection. Such a request must not be sent over
    /// another connection.
    pub(super) opens_session: bool,
    /// Whether it is safe to send the request again although the server may have received the
    /// request.
    pub(super) repeat_safety: RepeatSafety,
}

/// Returns whether the server knows the session, according to its JSON-RPC response to a `ping`;
/// `None` if unknown.
fn knows_session(ping_outcome: &RpcOutcome) -> Option<bool> {
    Some(match ping_outcome {
        Ok(_) => true,
        Err(error) => session_loss_of_error(error) == SessionLoss::None,
    })
}

/// Returns the response to `id` in `messages`, and passes all other messages to
/// `handle_other_message`.
fn find_response(
    id: &RpcRequestId,
    messages: Vec<IncomingMessage>,
    mut handle_other_message: impl FnMut(IncomingMessage),
) -> Option<RpcOutcome> {
    let mut response = None;
    for message in messages {
        match message {
            IncomingMessage::Response {
                id: response_id,
                outcome,
            } if response_id.matches(id) => response = Some(outcome),
            message => handle_other_message(message),
        }
    }
    response
}

/// A connection to a server. The caller enforces deadlines: dropping a future abandons the exchange
/// and frees its resources.
#[async_trait]
pub(super) trait Transport: Send + Sync {
    /// Sends a request and waits for the response with its ID.
    async fn exchange(&self, request: SerializedRequest) -> Result<RpcOutcome, McpErrorKind>;

    /// Sends a message that expects no response.
    async fn notify(&self, message: Bytes, repeat_safety: RepeatSafety)
    -> Result<(), McpErrorKind>;

    /// Returns whether the server knows the session, according to the response to a `ping`; `None`
    /// if unknown.
    async fn has_session(&self) -> Option<bool> {
        let (id, message) = message::encode_ping();
        let ping = SerializedRequest {
            id,
            message,
            mirrored_headers: MirroredHeaders::new(),
            is_endless: false,
            opens_session: true,
            repeat_safety: RepeatSafety::Harmless,
        };
        let outcome = pillion_deadline::timeout(PING_TIMEOUT, self.exchange(ping)).await;
        knows_session(&outcome.ok()?.ok()?)
    }

    /// Returns whether the connection is usable, as far as known without I/O.
    fn is_open(&self) -> bool;

    /// Sets the negotiated revision. Used by transports that send the revision outside of the
    /// messages, in an HTTP header.
    fn set_version(&self, _version: ProtocolVersion) {}

    /// Starts to receive messages outside of responses, if that requires a separate stream, and
    /// waits briefly for that stream.
    async fn listen(&self) {}

    /// Returns whether every request has its own connection or stream, so that dropping an exchange
    /// tells the server that the request was cancelled.
    fn closes_with_exchange(&self) -> bool {
        false
    }

    /// Closes the session on the server, if possible.
    async fn close(&self);
}
