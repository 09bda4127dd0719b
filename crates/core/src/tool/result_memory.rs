use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use pillion_deadline::timeout_at;
use tokio::time::Instant;

/// Resolves when the requested memory is reserved.
pub type ReserveFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The memory of an interface for results that wait until their client reads them. Many clients
/// that read slowly could otherwise use up the memory of the process.
pub trait ReserveMemory: Send + Sync + 'static {
    /// Reserves memory for a result. Returns `None` if the memory is reserved, otherwise a future
    /// that resolves when the memory is reserved.
    fn reserve(&self, bytes: usize) -> Option<ReserveFuture>;

    /// Reserves memory for a result only if there is room now. Returns whether the memory is
    /// reserved.
    fn try_reserve(&self, bytes: usize) -> bool;

    /// Releases reserved memory that no result needs.
    fn release(&self, bytes: usize);

    /// Returns whether clients of the same principal use reserved memory or wait for memory.
    fn is_in_use(&self) -> bool;
}

/// The memory for the results of a client's calls. Cheap to clone.
#[derive(Clone)]
pub struct ResultMemory {
    memory: Arc<dyn ReserveMemory>,
    is_shared: bool,
}

impl ResultMemory {
    /// Creates the memory of a client.
    pub fn new(memory: impl ReserveMemory) -> Self {
        Self {
            memory: Arc::new(memory),
            is_shared: false,
        }
    }

    /// Returns the memory for several results of one response. Their calls never wait for memory,
    /// because another result of the same response may use it.
    #[must_use]
    pub fn shared(&self) -> Self {
        Self {
            is_shared: true,
            ..self.clone()
        }
    }

    /// Returns whether several results of one response use this memory.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Reserves memory for a result. Waits for room until `deadline`, unless the memory is
    /// [shared](Self::shared). Returns whether the memory is reserved.
    pub async fn reserve(&self, bytes: usize, deadline: Instant) -> bool {
        if self.is_shared {
            return self.try_reserve(bytes);
        }
        match self.memory.reserve(bytes) {
            None => true,
            Some(reserved) => timeout_at(deadline, reserved).await.is_ok(),
        }
    }

    /// Reserves memory for a result only if there is room now. Returns whether the memory is
    /// reserved.
    #[must_use]
    pub fn try_reserve(&self, bytes: usize) -> bool {
        self.memory.try_reserve(bytes)
    }

    /// Releases reserved memory that no result needs.
    pub fn release(&self, bytes: usize) {
        self.memory.release(bytes);
    }

    /// Returns whether clients of the same principal use reserved memory or wait for memory.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.memory.is_in_use()
    }
}

/// Two values are equal if they are the memory of the same client.
impl PartialEq for ResultMemory {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.memory, &other.memory)
    }
}

impl Eq for ResultMemory {}

impl fmt::Debug for ResultMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultMemory")
            .field("is_shared", &self.is_shared)
            .finish_non_exhaustive()
    }
}
