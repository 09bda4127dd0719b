use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

/// The server's requests that are being processed, by their IDs as the server wrote them, so that
/// the server can cancel them (`notifications/cancelled`).
#[derive(Default)]
pub(super) struct ServerRequests(Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>);

/// One of the server's requests, while it is being processed.
pub(super) struct PendingServerRequest {
    requests: ServerRequests,
    id: String,
    cancel_rx: oneshot::Receiver<()>,
}

impl ServerRequests {
    pub(super) fn add(&self, id: &RawValue) -> PendingServerRequest {
        let (cancel_tx, cancel_rx) = oneshot::channel();
        let id = id.get().to_owned();
        // A second request with the same ID replaces the first one, and the first one can then no
        // longer be cancelled.
        self.0.lock().insert(id.clone(), cancel_tx);
        PendingServerRequest {
            requests: Self(Arc::clone(&self.0)),
            id,
            cancel_rx,
        }
    }

    pub(super) fn cancel(&self, id: &RawValue) {
        let cancel_tx = self.0.lock().remove(id.get());
        if let Some(cancel_tx) = cancel_tx {
            let _ = cancel_tx.send(());
        }
    }
}

impl PendingServerRequest {
    /// Returns the output of `work`, or `None` if the server cancels the request first.
    pub(super) async fn run<T>(mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            Ok(()) = &mut self.cancel_rx => None,
            outcome = work => Some(outcome),
        }
    }
}

impl Drop for PendingServerRequest {
    fn drop(&mut self) {
        self.cancel_rx.close();
        let mut requests = self.requests.0.lock();
        let cancel_tx = requests.get(&self.id);
        if cancel_tx.is_some_and(oneshot::Sender::is_closed) {
            requests.remove(&self.id);
        }
    }
}
