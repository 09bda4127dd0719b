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

/// Minimum size of a result that needs a reservation, in bytes. The memory of smaller results is
/// limited by the maximum number of calls.
const MIN_RESERVED_BYTES: usize = 64 * 1024;

/// Minimum size of a result that needs a reservation if the client gets several results in one
/// response, in bytes. Lower than the minimum for a single result, because one response may have
/// many results.
const MIN_SHARED_BYTES: usize = 4 * 1024;

const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The memory that a call has reserved for its result. Dropping this value releases the memory,
/// unless the memory was [handed over](Self::hand_over) to the client's response.
pub(super) struct Reservation {
    memory: Option<ResultMemory>,
    deadline: Instant,
    bytes: AtomicUsize,
    has_failed: AtomicBool,
}

impl Reservation {
    /// Reserves as much memory as the output will probably need. If there is not enough free
    /// memory, waits only if the call's principal already uses memory, so that one principal's
    /// large results do not delay the calls of other principals.
    ///
    /// # Errors
    /// `rate_limited` if no memory is free before `deadline`. The tool has not run.
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
        let expected_bytes = tool.expected_output_bytes();
        let Some(memory) = memory.filter(|memory| expected_bytes >= min_reserved_bytes(memory))
        else {
            return Ok(reservation);
        };
        if memory.try_reserve(expected_bytes) {
            reservation.set(expected_bytes);
        } else if memory.is_in_use() && !memory.is_shared() {
            if !memory.reserve(expected_bytes, deadline).await {
                return Err(no_memory_failure());
            }
            reservation.set(expected_bytes);
        }
        Ok(reservation)
    }

    /// Returns whether memory for the output could not be reserved before the deadline.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Changes the reservation to the memory that an output of `bytes` bytes needs.
    pub(super) async fn extend(&self, bytes: usize) {
        let Some(memory) = &self.memory else { return };
        let reserved_bytes = self.bytes.load(Ordering::Relaxed);
        if bytes < min_reserved_bytes(memory) || bytes <= reserved_bytes {
            self.keep(bytes);
        } else if memory.try_reserve(bytes - reserved_bytes) {
            self.set(bytes);
        } else {
            self.release();
            let is_reserved = memory.reserve(bytes, self.deadline).await;
            self.set(if is_reserved { bytes } else { 0 });
            self.has_failed.store(!is_reserved, Ordering::Relaxed);
        }
    }

    /// Keeps at most `bytes` bytes reserved, and releases the rest of the reservation.
    fn keep(&self, bytes: usize) {
        let reserved_bytes = self.bytes.load(Ordering::Relaxed);
        if let Some(memory) = &self.memory
            && reserved_bytes > bytes
        {
            memory.release(reserved_bytes - bytes);
            self.set(bytes);
        }
    }

    /// Hands over at most `bytes` bytes of the reservation to the client's response, which releases
    /// them later. Releases the rest now.
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

fn no_memory_failure() -> ToolFailure {
    let message = "Too many bytes of results wait for clients that read slowly. The tool has not \
                   run. Retry after 1 second.";
    ToolFailure::new(ErrorCode::RateLimited, message).with_retry_after(RETRY_INTERVAL)
}
