use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pillion_core::tool::{ErrorCode, ToolFailure};
use serde_json::Value;
use tokio::sync::{oneshot, watch};

use super::message::Response;
use crate::outbox::Outbox;
use pillion_gateway::rpc_connection;

/// Size of the unsent messages to the PHP process, in bytes, from which on the sidecar sends no
/// further results and requests, and reads no further messages that need a reply.
const MAX_WAITING_BYTES: usize = 1024 * 1024;

/// Maximum number of requests to which the PHP process has not responded. The number of running
/// calls does not limit them, because their callers may have given up.
const MAX_UNANSWERED: usize = 1_000;

/// The PHP process at the other end of a connection.
pub(super) struct PhpProcess {
    outbox: Outbox<String>,
    requests: Mutex<Requests>,
}

#[derive(Default)]
struct Requests {
    last_id: u64,
    pending: HashMap<u64, PendingRequest>,
}

/// A request to which the PHP process has not responded.
struct PendingRequest {
    response: oneshot::Sender<Result<Response, ToolFailure>>,
    _busy: BusyGuard,
}

/// Counts one request that keeps the PHP process busy, until dropped.
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

impl Default for PhpProcess {
    fn default() -> Self {
        Self {
            outbox: Outbox::new(MAX_WAITING_BYTES),
            requests: Mutex::default(),
        }
    }
}

impl PhpProcess {
    /// Returns the lines that wait to be sent to the PHP process.
    pub(super) fn outbox(&self) -> &Outbox<String> {
        &self.outbox
    }

    /// Sends a request as soon as there is room. The receiver fails if the connection ends before
    /// the response. If the caller gives up, the request stays pending until the PHP process
    /// responds, because PHP code cannot be interrupted.
    ///
    /// # Errors
    /// `unavailable` if the PHP process has left too many requests unanswered.
    pub(super) async fn request(
        &self,
        method: &str,
        params: &Value,
        busy: BusyGuard,
    ) -> Result<oneshot::Receiver<Result<Response, ToolFailure>>, ToolFailure> {
        let (response, receiver) = oneshot::channel();
        let mut pending = Some(PendingRequest {
            response,
            _busy: busy,
        });
        let id = {
            let mut requests = self.requests.lock();
            if requests.pending.len() >= MAX_UNANSWERED {
                let message =
                    format!("The PHP process has left {MAX_UNANSWERED} requests unanswered");
                return Err(ToolFailure::new(ErrorCode::Unavailable, message));
            }
            requests.last_id += 1;
            requests.last_id
        };
        let line = rpc_connection::request(id, method, params);
        // The request is pending as soon as the PHP process may receive it.
        let queued = || {
            let mut requests = self.requests.lock();
            requests.pending.extend(pending.take().map(|it| (id, it)));
        };
        self.outbox.send(line, queued).await;
        Ok(receiver)
    }

    /// Delivers a response to the request with this id. Returns whether there was such a request.
    pub(super) fn respond(&self, id: u64, response: Result<Response, ToolFailure>) -> bool {
        let pending = self.requests.lock().pending.remove(&id);
        let is_known = pending.is_some();
        if let Some(pending) = pending {
            // The receiver no longer exists if the caller has given up.
            drop(pending.response.send(response));
        }
        is_known
    }

    /// Sends a line as soon as there is room. After the end of the connection, the line is never
    /// read.
    pub(super) async fn send(&self, line: String) {
        self.outbox.send(line, || ()).await;
    }

    /// Sends a line at once, even above the limit.
    pub(super) fn send_now(&self, line: String) {
        self.outbox.send_now(line);
    }
}
