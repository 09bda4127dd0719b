use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pillion_core::tool::{ErrorCode, ToolFailure};
use serde_json::Value;
use tokio::sync::{oneshot, watch};

use super::message::PhpResponse;
use crate::outbox::Outbox;
use pillion_gateway::rpc_connection;

/// Maximum size of the unsent messages to the PHP process, in bytes. Above this size, the sidecar
/// queues no further results and requests, and reads no further messages that require a response.
const MAX_WAITING_BYTES: usize = 1024 * 1024;

/// Maximum number of requests to which the PHP process has not responded. A limit on running calls
/// is not enough, because a request stays pending after its caller has stopped waiting.
const MAX_UNANSWERED_REQUESTS: usize = 1_000;

/// The PHP process at the other end of a connection.
pub(super) struct PhpProcess {
    outbox: Outbox<String>,
    requests: Mutex<PendingRequests>,
}

#[derive(Default)]
struct PendingRequests {
    last_id: u64,
    requests_by_id: HashMap<u64, PendingRequest>,
}

/// A request to which the PHP process has not responded.
struct PendingRequest {
    response_sender: oneshot::Sender<Result<PhpResponse, ToolFailure>>,
    _busy_guard: BusyGuard,
}

/// Counts one request to which the PHP process has not responded, until the guard is dropped.
pub(super) struct BusyGuard(Arc<watch::Sender<usize>>);

impl BusyGuard {
    pub(super) fn new(unanswered_requests: &Arc<watch::Sender<usize>>) -> Self {
        unanswered_requests.send_modify(|count| *count += 1);
        Self(Arc::clone(unanswered_requests))
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
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
    /// the response. If the caller stops waiting, the request stays pending until the PHP process
    /// responds, because PHP code cannot be interrupted.
    ///
    /// # Errors
    /// `unavailable` if too many requests to the PHP process are pending.
    pub(super) async fn request(
        &self,
        method: &str,
        params: &Value,
        busy_guard: BusyGuard,
    ) -> Result<oneshot::Receiver<Result<PhpResponse, ToolFailure>>, ToolFailure> {
        let (response_sender, receiver) = oneshot::channel();
        let mut pending_request = Some(PendingRequest {
            response_sender,
            _busy_guard: busy_guard,
        });
        let id = {
            let mut requests = self.requests.lock();
            if requests.requests_by_id.len() >= MAX_UNANSWERED_REQUESTS {
                let message = format!(
                    "The PHP process has left {MAX_UNANSWERED_REQUESTS} requests unanswered"
                );
                return Err(ToolFailure::new(ErrorCode::Unavailable, message));
            }
            requests.last_id += 1;
            requests.last_id
        };
        let line = rpc_connection::request(id, method, params);
        // The request counts as pending as soon as it is queued, because the PHP process may
        // receive it from then on.
        let on_queued = || {
            let sent_request = pending_request.take().map(|request| (id, request));
            self.requests.lock().requests_by_id.extend(sent_request);
        };
        self.outbox.send(line, on_queued).await;
        Ok(receiver)
    }

    /// Delivers a response to the request with this ID. Returns whether a request with this ID was
    /// pending.
    pub(super) fn deliver_response(
        &self,
        id: u64,
        response: Result<PhpResponse, ToolFailure>,
    ) -> bool {
        let pending_request = self.requests.lock().requests_by_id.remove(&id);
        let is_known = pending_request.is_some();
        if let Some(request) = pending_request {
            // A send error is ignored: the receiver no longer exists if the caller has stopped
            // waiting.
            drop(request.response_sender.send(response));
        }
        is_known
    }

    /// Sends a line as soon as there is room. After the end of the connection, the line is never
    /// sent.
    pub(super) async fn send(&self, line: String) {
        self.outbox.send(line, || ()).await;
    }

    /// Queues a line at once, even if the outbox is full.
    pub(super) fn send_now(&self, line: String) {
        self.outbox.send_now(line);
    }
}
