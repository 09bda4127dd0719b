use std::collections::HashMap;
use std::mem;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::McpErrorKind;
use crate::message::{RpcOutcome, RpcRequestId};

type RpcReply = Result<RpcOutcome, McpErrorKind>;

/// Creates the error for requests on a closed connection.
type CloseErrorFn = Box<dyn Fn() -> McpErrorKind + Send + Sync>;

/// The requests that wait for their response on a multiplexed stream, by request ID.
pub(super) struct PendingRequests {
    state: Mutex<PendingState>,
}

enum PendingState {
    Open(HashMap<RpcRequestId, oneshot::Sender<RpcReply>>),
    Closed(CloseErrorFn),
}

/// A request that waits for its response. Dropping this value stops waiting.
pub(super) struct PendingRequest<'a> {
    requests: &'a PendingRequests,
    id: &'a RpcRequestId,
    reply_rx: oneshot::Receiver<RpcReply>,
}

impl PendingRequests {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(PendingState::Open(HashMap::new())),
        }
    }

    /// Registers a request. Must be called before the request is sent.
    ///
    /// # Errors
    /// The reason why the connection has ended.
    pub(super) fn register<'a>(
        &'a self,
        id: &'a RpcRequestId,
    ) -> Result<PendingRequest<'a>, McpErrorKind> {
        match &mut *self.state.lock() {
            PendingState::Open(reply_senders) => {
                let (reply_tx, reply_rx) = oneshot::channel();
                reply_senders.insert(id.clone(), reply_tx);
                Ok(PendingRequest {
                    requests: self,
                    id,
                    reply_rx,
                })
            }
            PendingState::Closed(close_error) => Err(close_error()),
        }
    }

    /// Delivers the reply to a request. Returns `false` if no request with this ID is waiting.
    pub(super) fn deliver_reply(&self, id: &RpcRequestId, reply: RpcReply) -> bool {
        let reply_tx = match &mut *self.state.lock() {
            PendingState::Open(reply_senders) => reply_senders.remove(id),
            PendingState::Closed(_) => None,
        };
        reply_tx.is_some_and(|reply_tx| reply_tx.send(reply).is_ok())
    }

    /// Returns whether a request with this ID is waiting.
    pub(super) fn is_waiting(&self, id: &RpcRequestId) -> bool {
        match &*self.state.lock() {
            PendingState::Open(reply_senders) => reply_senders.contains_key(id),
            PendingState::Closed(_) => false,
        }
    }

    /// Returns the ID of the only waiting request; `None` if no request or several requests are
    /// waiting.
    pub(super) fn single_id(&self) -> Option<RpcRequestId> {
        match &*self.state.lock() {
            PendingState::Open(reply_senders) if reply_senders.len() == 1 => {
                reply_senders.keys().next().cloned()
            }
            PendingState::Open(_) | PendingState::Closed(_) => None,
        }
    }

    /// Returns whether responses can still arrive on the stream.
    pub(super) fn is_open(&self) -> bool {
        matches!(&*self.state.lock(), PendingState::Open(_))
    }

    /// Fails all waiting requests and all later requests on this stream. Only the first call has an
    /// effect.
    pub(super) fn close(&self, close_error: impl Fn() -> McpErrorKind + Send + Sync + 'static) {
        let mut state = self.state.lock();
        if let PendingState::Open(reply_senders) = &mut *state {
            for (_, reply_tx) in mem::take(reply_senders) {
                let _ = reply_tx.send(Err(close_error()));
            }
            *state = PendingState::Closed(Box::new(close_error));
        }
    }

    /// Returns the reason why the connection ended.
    fn close_error(&self) -> McpErrorKind {
        match &*self.state.lock() {
            PendingState::Open(_) => McpErrorKind::StreamClosed,
            PendingState::Closed(close_error) => close_error(),
        }
    }
}

impl PendingRequest<'_> {
    /// Waits for the reply to the request. Can be called again after its future was dropped.
    pub(super) async fn wait_for_reply(&mut self) -> RpcReply {
        match (&mut self.reply_rx).await {
            Ok(reply) => reply,
            // The sender of the reply was dropped, because another request with the same ID has
            // replaced this one.
            Err(_) => Err(self.requests.close_error()),
        }
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        if let PendingState::Open(reply_senders) = &mut *self.requests.state.lock() {
            reply_senders.remove(self.id);
        }
    }
}
