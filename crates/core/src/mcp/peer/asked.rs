use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

/// The server's requests that are being worked on, by their ids as the server wrote them:
/// it may take them back (`notifications/cancelled`).
#[derive(Default)]
pub(super) struct Asked(Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>);

/// One of them, for as long as somebody works on it.
pub(super) struct Question {
    asked: Asked,
    id: String,
    taken_back: oneshot::Receiver<()>,
}

impl Asked {
    pub(super) fn add(&self, id: &RawValue) -> Question {
        let (take_back, taken_back) = oneshot::channel();
        let id = id.get().to_owned();
        // A second one with the same id takes the place of the first, which goes on.
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
    /// What `work` comes to; none if the server takes the question back before.
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
