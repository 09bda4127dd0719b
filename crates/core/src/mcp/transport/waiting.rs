use std::collections::HashMap;
use std::mem;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::mcp::McpErrorKind;
use crate::mcp::jsonrpc::{RequestId, RpcOutcome};

type Reply = Result<RpcOutcome, McpErrorKind>;

/// Why a connection has ended, for everybody who waits on it and everybody who comes later.
type Ending = Box<dyn Fn() -> McpErrorKind + Send + Sync>;

/// The callers that wait for a response on a stream which carries everybody's, by the id
/// of their request.
pub(super) struct Waiting {
    state: Mutex<State>,
}

enum State {
    Open(HashMap<RequestId, oneshot::Sender<Reply>>),
    Closed(Ending),
}

/// A caller's place among the waiting; dropping it gives the place up.
pub(super) struct Place<'a> {
    waiting: &'a Waiting,
    id: &'a RequestId,
    reply: oneshot::Receiver<Reply>,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State::Open(HashMap::new())),
        }
    }

    /// Takes a place, before the request goes out.
    ///
    /// # Errors
    /// With what the connection has ended with.
    pub(super) fn place<'a>(&'a self, id: &'a RequestId) -> Result<Place<'a>, McpErrorKind> {
        match &mut *self.state.lock() {
            State::Open(callers) => {
                let (sender, reply) = oneshot::channel();
                callers.insert(id.clone(), sender);
                Ok(Place {
                    waiting: self,
                    id,
                    reply,
                })
            }
            State::Closed(ending) => Err(ending()),
        }
    }

    /// Gives a caller its reply; false when nobody waits for that id.
    pub(super) fn reply(&self, id: &RequestId, reply: Reply) -> bool {
        let caller = match &mut *self.state.lock() {
            State::Open(callers) => callers.remove(id),
            State::Closed(_) => None,
        };
        caller.is_some_and(|caller| caller.send(reply).is_ok())
    }

    /// Whether somebody waits for this id.
    pub(super) fn has(&self, id: &RequestId) -> bool {
        matches!(&*self.state.lock(), State::Open(callers) if callers.contains_key(id))
    }

    /// The one id that somebody waits for, unless there are none or several.
    pub(super) fn only(&self) -> Option<RequestId> {
        match &*self.state.lock() {
            State::Open(callers) if callers.len() == 1 => callers.keys().next().cloned(),
            State::Open(_) | State::Closed(_) => None,
        }
    }

    /// Whether responses may still come.
    pub(super) fn is_open(&self) -> bool {
        matches!(&*self.state.lock(), State::Open(_))
    }

    /// Tells every caller, and all who come later, that no response will come. The first
    /// ending stays.
    pub(super) fn close(&self, ending: impl Fn() -> McpErrorKind + Send + Sync + 'static) {
        let mut state = self.state.lock();
        if let State::Open(callers) = &mut *state {
            for (_, caller) in mem::take(callers) {
                let _ = caller.send(Err(ending()));
            }
            *state = State::Closed(Box::new(ending));
        }
    }

    /// What the connection has ended with.
    fn ending(&self) -> McpErrorKind {
        match &*self.state.lock() {
            State::Open(_) => McpErrorKind::StreamClosed,
            State::Closed(ending) => ending(),
        }
    }
}

impl Place<'_> {
    /// Waits for the reply. It may be called again when its future was dropped before.
    pub(super) async fn reply(&mut self) -> Reply {
        match (&mut self.reply).await {
            Ok(reply) => reply,
            // Nobody replies twice, and a caller is told of the end: this is a caller whose
            // place was taken by a second one with the same id.
            Err(_) => Err(self.waiting.ending()),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let State::Open(callers) = &mut *self.waiting.state.lock() {
            callers.remove(self.id);
        }
    }
}
