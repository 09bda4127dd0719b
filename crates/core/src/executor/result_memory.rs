//! Reserves memory for a call's result: before the tool runs, as much as earlier outputs of the tool
//! needed, and the rest when the output is known.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillion_deadline::timeout_at;
use tokio::time::Instant;

use crate::registry::RegisteredTool;
use crate::tool::{ErrorCode, ResultMemory, ToolFailure};

/// Minimum size of a result that needs a reservation, in bytes. The number of calls limits the
/// memory of smaller results.
const MIN_RESERVED_BYTES: usize = 64 * 1024;

const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The memory that a call has reserved for its result.
pub(super) struct Reservation {
    memory: Option<ResultMemory>,
    deadline: Instant,
    bytes: usize,
    has_failed: AtomicBool,
}

impl Reservation {
    /// Reserves as much memory as the output will probably need.
    ///
    /// # Errors
    /// `rate_limited` if there is no memory until `deadline`. The tool has not run.
    pub(super) async fn for_call(
        memory: Option<&ResultMemory>,
        tool: &RegisteredTool,
        deadline: Instant,
    ) -> Result<Self, ToolFailure> {
        let expected = tool.expected_output_bytes();
        let mut reservation = Self {
            memory: memory.cloned(),
            deadline,
            bytes: 0,
            has_failed: AtomicBool::new(false),
        };
        if let Some(memory) = memory
            && expected >= MIN_RESERVED_BYTES
        {
            if let Some(reserved) = memory.reserve(expected) {
                timeout_at(deadline, reserved)
                    .await
                    .map_err(|_| no_memory())?;
            }
            reservation.bytes = expected;
        }
        Ok(reservation)
    }

    /// Returns whether there was no memory for the output until the deadline.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Reserves the rest of the memory that an output of `bytes` bytes needs.
    pub(super) async fn extend(&self, bytes: usize) {
        let Some(memory) = &self.memory else {
            return;
        };
        let rest = bytes.saturating_sub(self.bytes);
        if bytes < MIN_RESERVED_BYTES || rest == 0 {
            return;
        }
        if let Some(reserved) = memory.reserve(rest) {
            let outcome = timeout_at(self.deadline, reserved).await;
            self.has_failed.store(outcome.is_err(), Ordering::Relaxed);
        }
    }
}

fn no_memory() -> ToolFailure {
    ToolFailure::new(
        ErrorCode::RateLimited,
        "Too many bytes of results wait for clients that read slowly. The tool has not run. Retry \
         after 1 second.",
    )
    .with_retry_after(RETRY_INTERVAL)
}
