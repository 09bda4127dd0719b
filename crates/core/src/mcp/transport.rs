//! How messages travel. Every transport answers the same two questions: here is a request,
//! what is its response; here is a message that has none. What the server says beyond
//! responses goes to the [`Peer`](super::peer::Peer) that a transport is made with.

mod duplex;
mod event_stream;
mod message_id;
mod post;
mod stdio;
mod waiting;
mod websocket;

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;

use super::jsonrpc::{RequestId, RpcOutcome};
use super::metadata::Mirrored;
use super::{McpErrorKind, ProtocolVersion};
pub(super) use event_stream::{EndpointRule, EventStreamTransport};
pub(super) use post::PostTransport;
pub(super) use stdio::{StdioLink, StdioTransport};
pub(super) use websocket::WebSocketTransport;

/// A boxed future, so that transports can be used as `dyn Transport`.
pub(super) type TransportFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A request, ready to travel.
pub(super) struct Outgoing {
    pub(super) id: RequestId,
    /// The JSON-RPC message.
    pub(super) message: Bytes,
    /// What the message says, for those who look at HTTP headers only (2026-07-28); other
    /// transports leave it out.
    pub(super) mirrored: Mirrored,
    /// The response comes at the end of a stream that lives as long as somebody listens, so
    /// that only its single events are bounded.
    pub(super) endless: bool,
    /// It belongs to the opening of this connection and has no place on another.
    pub(super) opens: bool,
}

/// One connection to one server. Deadlines are the caller's: dropping a future gives up the
/// exchange and frees what it held.
pub(super) trait Transport: Send + Sync {
    /// Sends a request and waits for the response with its id.
    fn exchange(&self, request: Outgoing) -> TransportFuture<'_, Result<RpcOutcome, McpErrorKind>>;

    /// Sends a message that has no response.
    fn notify(&self, message: Bytes) -> TransportFuture<'_, Result<(), McpErrorKind>>;

    /// Whether the connection can still be used, as far as is known without asking.
    fn is_open(&self) -> bool;

    /// The revision that was negotiated; requests from now on say it where they must.
    fn negotiated(&self, version: ProtocolVersion);

    /// Begins to listen for what the server says outside of answers, where that takes a
    /// stream of its own, and waits a moment for that stream to be there.
    fn listen(&self) -> TransportFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Whether every request has a connection or a stream of its own, which ends when the
    /// exchange is given up: the server can see that.
    fn closes_with_exchange(&self) -> bool {
        false
    }

    /// Ends the session at the server, as far as that is possible.
    fn close(&self) -> TransportFuture<'_, ()>;
}
