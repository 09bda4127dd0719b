use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pillion_core::tool::ToolFailure;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};

use super::message::{self, Response};

/// The PHP process at the other end of a connection.
pub(super) struct PhpProcess {
    outbox: mpsc::UnboundedSender<String>,
    requests: Mutex<Requests>,
}

#[derive(Default)]
struct Requests {
    last_id: u64,
    pending: HashMap<u64, PendingRequest>,
}

/// A request that the PHP process has not answered.
struct PendingRequest {
    response: oneshot::Sender<Result<Response, ToolFailure>>,
    _busy: BusyGuard,
}

/// Counts as one request that keeps the PHP process busy, until it is dropped.
pub(super) struct BusyGuard(Arc<watch::Sender<usize>>);

impl BusyGuard {
    pub(super) fn new(busy: &Arc<watch::Sender<usize>>) -> Self {
        busy.send_modify(|requests| *requests += 1);
        Self(Arc::clone(busy))
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.send_modify(|requests| *requests -= 1);
    }
}

impl PhpProcess {
    pub(super) fn new(outbox: mpsc::UnboundedSender<String>) -> Self {
        Self {
            outbox,
            requests: Mutex::default(),
        }
    }

    /// Sends a request. The receiver fails if the connection ends before the response. A request
    /// whose caller gives up stays pending until the PHP process answers, because PHP code cannot
    /// be interrupted.
    pub(super) fn request(
        &self,
        method: &str,
        params: &Value,
        busy: BusyGuard,
    ) -> oneshot::Receiver<Result<Response, ToolFailure>> {
        let (response, receiver) = oneshot::channel();
        let mut requests = self.requests.lock();
        requests.last_id += 1;
        let id = requests.last_id;
        let pending = PendingRequest {
            response,
            _busy: busy,
        };
        requests.pending.insert(id, pending);
        drop(requests);
        self.send(message::request(id, method, params));
        receiver
    }

    /// Passes a response to the request with this id. Returns whether there was such a request.
    pub(super) fn respond(&self, id: u64, response: Result<Response, ToolFailure>) -> bool {
        let pending = self.requests.lock().pending.remove(&id);
        let is_known = pending.is_some();
        if let Some(pending) = pending {
            // The caller may have given up.
            drop(pending.response.send(response));
        }
        is_known
    }

    pub(super) fn notify(&self, method: &str, params: &Value) {
        self.send(message::notification(method, params));
    }

    /// Sends a line. After the end of the connection nothing reads it.
    pub(super) fn send(&self, line: String) {
        drop(self.outbox.send(line));
    }
}
