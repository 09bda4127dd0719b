//! How messages travel. Every transport answers the same two questions: here is a request,
//! what is its response; here is a message that has none.

mod event_stream;
mod post;

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;

use super::jsonrpc::{RequestId, RpcOutcome};
use super::{McpErrorKind, ProtocolVersion};
pub(super) use event_stream::{EndpointRule, EventStreamTransport};
pub(super) use post::PostTransport;

/// A boxed future, so that transports can be used as `dyn Transport`.
pub(super) type TransportFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One connection to one server. Deadlines are the caller's: dropping a future gives up the
/// exchange and frees what it held.
pub(super) trait Transport: Send + Sync {
    /// Sends a request and waits for the response with its id.
    fn exchange<'a>(
        &'a self,
        id: &'a RequestId,
        message: Bytes,
    ) -> TransportFuture<'a, Result<RpcOutcome, McpErrorKind>>;

    /// Sends a message that has no response.
    fn notify(&self, message: Bytes) -> TransportFuture<'_, Result<(), McpErrorKind>>;

    /// Whether the connection can still be used, as far as is known without asking.
    fn is_open(&self) -> bool;

    /// The revision that was negotiated; requests from now on say it where they must.
    fn negotiated(&self, version: ProtocolVersion);

    /// Ends the session at the server, as far as that is possible.
    fn close(&self) -> TransportFuture<'_, ()>;
}
