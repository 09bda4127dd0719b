use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::tool::{ErrorCode, JsonObject, ToolFailure};

/// What a composed tool has come to before it stopped at an approval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptSteps {
    /// The call that came so far, as the call log knows it.
    pub call: Option<String>,
    /// What each finished step came to, by its name.
    pub steps: JsonObject,
}

/// What [`StepKeeper::take`] returns.
pub type TakeFuture = Pin<Box<dyn Future<Output = Result<Option<KeptSteps>, ToolFailure>> + Send>>;

/// What [`StepKeeper::keep`] returns.
pub type KeepFuture = Pin<Box<dyn Future<Output = Result<(), ToolFailure>> + Send>>;

/// Keeps what finished steps came to while another step of the same call waits for an approval:
/// so a call that is sent again after the decision goes on where it was, and repeats nothing.
///
/// `key` stands for the composed tool as it was declared, the arguments and the caller.
pub trait StepKeeper: Send + Sync + 'static {
    /// Takes what is kept under a key, so that nobody else gets it; none where that is nothing,
    /// or too old. After a failure no step runs.
    fn take(&self, key: String) -> TakeFuture;

    /// Keeps something in the place of what was there.
    fn keep(&self, key: String, steps: KeptSteps) -> KeepFuture;
}

/// A keeper for as long as the process lives.
pub struct KeptInMemory {
    time: Duration,
    kept: Mutex<HashMap<String, (Instant, KeptSteps)>>,
}

/// How many calls are kept at most.
const MOST_KEPT: usize = 1_000;

impl KeptInMemory {
    /// Keeps everything for so long.
    #[must_use]
    pub fn new(time: Duration) -> Self {
        Self {
            time,
            kept: Mutex::default(),
        }
    }
}

impl StepKeeper for KeptInMemory {
    fn take(&self, key: String) -> TakeFuture {
        let kept = self.kept.lock().remove(&key);
        let kept = kept.filter(|(at, _)| at.elapsed() < self.time);
        let steps = kept.map(|(_, steps)| steps);
        Box::pin(async move { Ok(steps) })
    }

    fn keep(&self, key: String, steps: KeptSteps) -> KeepFuture {
        let mut kept = self.kept.lock();
        kept.retain(|_, (at, _)| at.elapsed() < self.time);
        let has_room = kept.len() < MOST_KEPT;
        if has_room {
            kept.insert(key, (Instant::now(), steps));
        }
        Box::pin(async move {
            let full = || ToolFailure::new(ErrorCode::Unavailable, "Too many calls are kept");
            has_room.then_some(()).ok_or_else(full)
        })
    }
}
