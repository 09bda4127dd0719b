use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::tool::{ErrorCode, JsonObject, ToolFailure};

/// The checkpoint of a composed tool that waits for an approval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptSteps {
    /// The call that ran the steps, as its id in the call log.
    pub call: Option<String>,
    /// The result of each finished step, by the step's name.
    pub steps: JsonObject,
}

/// The return type of [`StepKeeper::take`].
pub type TakeFuture = Pin<Box<dyn Future<Output = Result<Option<KeptSteps>, ToolFailure>> + Send>>;

/// The return type of [`StepKeeper::keep`].
pub type KeepFuture = Pin<Box<dyn Future<Output = Result<(), ToolFailure>> + Send>>;

/// The checkpoint store of composed tools: stores the results of finished steps while another step
/// waits for an approval. A call that is repeated after the decision continues there, without
/// repeating finished steps.
///
/// `key` identifies the declaration of the composed tool, the arguments and the caller.
pub trait StepKeeper: Send + Sync + 'static {
    /// Removes and returns the checkpoint of a key; `None` if there is none or it has expired. Of
    /// concurrent callers, only one gets it. After a failure, no step runs.
    fn take(&self, key: String) -> TakeFuture;

    /// Stores a checkpoint, replacing any other with this key.
    fn keep(&self, key: String, steps: KeptSteps) -> KeepFuture;
}

/// A checkpoint store in memory.
pub struct KeptInMemory {
    time: Duration,
    kept: Mutex<HashMap<String, (Instant, KeptSteps)>>,
}

/// Maximum number of checkpoints.
const MAX_STORED: usize = 1_000;

impl KeptInMemory {
    /// Creates a store whose checkpoints expire after `time`.
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
        let has_room = kept.len() < MAX_STORED;
        if has_room {
            kept.insert(key, (Instant::now(), steps));
        }
        Box::pin(async move {
            let full = || {
                ToolFailure::new(
                    ErrorCode::Unavailable,
                    "Too many composed calls wait for an approval",
                )
            };
            has_room.then_some(()).ok_or_else(full)
        })
    }
}
