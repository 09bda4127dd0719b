use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Notification;

/// How many of the server's own requests are worked on at once; they may wait for a person.
const MOST_ANSWERS: usize = 16;

/// What their parameters take together at most.
const MOST_KIB: usize = 32 * 1024;

/// How many answers that are known at once, refusals and those to `ping`, may be on their
/// way. A server that asks faster than it takes the answers gets none to the rest.
const MOST_SHORT_ANSWERS: usize = 64;

/// The longest id that is sent back in an answer.
const LONGEST_ID: usize = 1024;

/// The largest notice that waits for whoever hears it.
const LARGEST_NOTICE: usize = 64 * 1024;

/// Room for what one server says on its own account, so that what is held here stays
/// bounded whatever it does.
pub(super) struct Room {
    answers: Arc<Semaphore>,
    kib: Arc<Semaphore>,
    short_answers: Arc<Semaphore>,
    lost: AtomicU64,
}

/// The room that an answer takes, until it has left.
pub(super) struct Taken {
    _permits: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
}

impl Room {
    pub(super) fn new() -> Self {
        Self {
            answers: Arc::new(Semaphore::new(MOST_ANSWERS)),
            kib: Arc::new(Semaphore::new(MOST_KIB)),
            short_answers: Arc::new(Semaphore::new(MOST_SHORT_ANSWERS)),
            lost: AtomicU64::new(0),
        }
    }

    /// Room to work on a request with parameters of so many bytes.
    pub(super) fn to_work(&self, bytes: usize) -> Option<Taken> {
        // The limits of an answer may be set above all of this: one such request fits.
        let kib = u32::try_from(bytes.div_ceil(1024).min(MOST_KIB)).ok()?;
        let answer = Arc::clone(&self.answers).try_acquire_owned().ok()?;
        let held = Arc::clone(&self.kib).try_acquire_many_owned(kib).ok()?;
        Some(Taken {
            _permits: (answer, Some(held)),
        })
    }

    /// Whether an id is short enough to be sent back.
    pub(super) fn fits_id(id: &RawValue) -> bool {
        id.get().len() <= LONGEST_ID
    }

    /// Room for an answer that is known at once.
    pub(super) fn to_answer(&self) -> Option<Taken> {
        let answer = Arc::clone(&self.short_answers).try_acquire_owned().ok()?;
        Some(Taken {
            _permits: (answer, None),
        })
    }

    /// Whether a notice is small enough to wait for somebody.
    pub(super) fn fits(notice: &Notification) -> bool {
        notice.method.len() + notice.params.get().len() <= LARGEST_NOTICE
    }

    /// Takes note of a message that got no room; the first one is worth a warning.
    pub(super) fn lose(&self, method: &str) {
        let lost = self.lost.fetch_add(1, Ordering::Relaxed) + 1;
        let method: String = method.chars().take(100).collect();
        if lost == 1 {
            tracing::warn!(
                method,
                "A server says more than can be taken in: some of it is dropped"
            );
        } else {
            tracing::debug!(method, lost, "A message of the server's was dropped");
        }
    }

    #[cfg(test)]
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
