use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

/// The server's requests that are being processed, by their ids as the server wrote them, so that
/// the server can cancel them (`notifications/cancelled`).
#[derive(Default)]
pub(super) struct ServerRequests(Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>);

/// One of the server's requests, while it is being processed.
pub(super) struct Question {
    asked: ServerRequests,
    id: String,
    taken_back: oneshot::Receiver<()>,
}

impl ServerRequests {
    pub(super) fn add(&self, id: &RawValue) -> Question {
        let (take_back, taken_back) = oneshot::channel();
        let id = id.get().to_owned();
        // A second request with the same id replaces the first, which continues.
        self.0.lock().insert(id.clone(), take_back);
        Question {
            asked: Self(Arc::clone(&self.0)),
            id,
            taken_back,
        }
    }

    pub(super) fn take_back(&self, id: &RawValue) {
        let question = self.0.lock().remove(id.get());
        if let Some(question) = question {
            let _ = question.send(());
        }
    }
}

impl Question {
    /// Returns the output of `work`, or `None` if the server cancels the request first.
    pub(super) async fn answer<T>(mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            Ok(()) = &mut self.taken_back => None,
            outcome = work => Some(outcome),
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.taken_back.close();
        let mut asked = self.asked.0.lock();
        if asked.get(&self.id).is_some_and(oneshot::Sender::is_closed) {
            asked.remove(&self.id);
        }
    }
}
