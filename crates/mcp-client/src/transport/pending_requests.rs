use std::collections::HashMap;
use std::mem;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::McpErrorKind;
use crate::jsonrpc::{RpcOutcome, RpcRequestId};

type RpcReply = Result<RpcOutcome, McpErrorKind>;

/// Creates the error for requests on a closed connection.
type CloseErrorFn = Box<dyn Fn() -> McpErrorKind + Send + Sync>;

/// The requests that wait for their response on a multiplexed stream, by request id.
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
    reply: oneshot::Receiver<RpcReply>,
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
            PendingState::Open(callers) => {
                let (sender, reply) = oneshot::channel();
                callers.insert(id.clone(), sender);
                Ok(PendingRequest {
                    requests: self,
                    id,
                    reply,
                })
            }
            PendingState::Closed(close_error) => Err(close_error()),
        }
    }

    /// Delivers the reply to a request. Returns `false` if no request with this id is waiting.
    pub(super) fn reply(&self, id: &RpcRequestId, reply: RpcReply) -> bool {
        let caller = match &mut *self.state.lock() {
            PendingState::Open(callers) => callers.remove(id),
            PendingState::Closed(_) => None,
        };
        caller.is_some_and(|caller| caller.send(reply).is_ok())
    }

    /// Returns whether a request with this id is waiting.
    pub(super) fn has(&self, id: &RpcRequestId) -> bool {
        matches!(&*self.state.lock(), PendingState::Open(callers) if callers.contains_key(id))
    }

    /// Returns the id of the only waiting request; `None` if no request or several requests are
    /// waiting.
    pub(super) fn only(&self) -> Option<RpcRequestId> {
        match &*self.state.lock() {
            PendingState::Open(callers) if callers.len() == 1 => callers.keys().next().cloned(),
            PendingState::Open(_) | PendingState::Closed(_) => None,
        }
    }

    /// Returns whether responses can still arrive.
    pub(super) fn is_open(&self) -> bool {
        matches!(&*self.state.lock(), PendingState::Open(_))
    }

    /// Fails all waiting and later requests. Only the first call has an effect.
    pub(super) fn close(&self, close_error: impl Fn() -> McpErrorKind + Send + Sync + 'static) {
        let mut state = self.state.lock();
        if let PendingState::Open(callers) = &mut *state {
            for (_, caller) in mem::take(callers) {
                let _ = caller.send(Err(close_error()));
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
    pub(super) async fn reply(&mut self) -> RpcReply {
        match (&mut self.reply).await {
            Ok(reply) => reply,
            // The sender was dropped without a reply: another request with the same id has replaced
            // this one.
            Err(_) => Err(self.requests.close_error()),
        }
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        if let PendingState::Open(callers) = &mut *self.requests.state.lock() {
            callers.remove(self.id);
        }
    }
}
