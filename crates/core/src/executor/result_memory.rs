//! Reserves memory for a call's result: before the tool runs, as much as earlier outputs of the tool
//! needed, and the rest when the output is known.
//!
//! A call never waits while it holds memory: calls that wait for each other's memory would all wait
//! until their deadlines.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::registry::RegisteredTool;
use crate::tool::{ErrorCode, ResultMemory, ToolFailure};

/// Minimum size of a result that needs a reservation, in bytes. The number of calls limits the
/// memory of smaller results.
const MIN_RESERVED_BYTES: usize = 64 * 1024;

/// Minimum size of a result that needs a reservation if other results share its response, in bytes.
/// The results of a response may be many.
const MIN_SHARED_BYTES: usize = 4 * 1024;

const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The memory that a call has reserved for its result. Released when dropped, unless
/// [handed over](Self::hand_over) to the client's response.
pub(super) struct Reservation {
    memory: Option<ResultMemory>,
    deadline: Instant,
    bytes: AtomicUsize,
    has_failed: AtomicBool,
}

impl Reservation {
    /// Reserves as much memory as the output will probably need. Waits only if the principal uses
    /// memory already: otherwise one principal's large results would delay the calls of others.
    ///
    /// # Errors
    /// `rate_limited` if there is no memory until `deadline`. The tool has not run.
    pub(super) async fn for_call(
        memory: Option<&ResultMemory>,
        tool: &RegisteredTool,
        deadline: Instant,
    ) -> Result<Self, ToolFailure> {
        let reservation = Self {
            memory: memory.cloned(),
            deadline,
            bytes: AtomicUsize::new(0),
            has_failed: AtomicBool::new(false),
        };
        let expected = tool.expected_output_bytes();
        let Some(memory) = memory.filter(|memory| expected >= min_reserved_bytes(memory)) else {
            return Ok(reservation);
        };
        if memory.try_reserve(expected) {
            reservation.set(expected);
        } else if memory.is_in_use() && !memory.is_shared() {
            if !memory.reserve(expected, deadline).await {
                return Err(no_memory());
            }
            reservation.set(expected);
        }
        Ok(reservation)
    }

    /// Returns whether there was no memory for the output until the deadline.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Reserves the memory that an output of `bytes` bytes needs, and releases the rest.
    pub(super) async fn extend(&self, bytes: usize) {
        let Some(memory) = &self.memory else {
            return;
        };
        let reserved = self.bytes.load(Ordering::Relaxed);
        if bytes < min_reserved_bytes(memory) || bytes <= reserved {
            self.keep(bytes);
        } else if memory.try_reserve(bytes - reserved) {
            self.set(bytes);
        } else {
            self.release();
            let is_reserved = memory.reserve(bytes, self.deadline).await;
            self.set(if is_reserved { bytes } else { 0 });
            self.has_failed.store(!is_reserved, Ordering::Relaxed);
        }
    }

    /// Keeps at most `bytes` bytes, and releases the rest.
    fn keep(&self, bytes: usize) {
        let reserved = self.bytes.load(Ordering::Relaxed);
        if let Some(memory) = &self.memory
            && reserved > bytes
        {
            memory.release(reserved - bytes);
            self.set(bytes);
        }
    }

    /// Leaves at most `bytes` bytes reserved for the client's response.
    pub(super) fn hand_over(self, bytes: usize) {
        self.keep(bytes);
        self.set(0);
    }

    /// Returns whether no memory is reserved.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) == 0
    }

    fn set(&self, bytes: usize) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    fn release(&self) {
        self.keep(0);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release();
    }
}

fn min_reserved_bytes(memory: &ResultMemory) -> usize {
    if memory.is_shared() {
        MIN_SHARED_BYTES
    } else {
        MIN_RESERVED_BYTES
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
