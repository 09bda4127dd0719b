use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use pillion_deadline::timeout_at;
use tokio::time::Instant;

/// A future that resolves when the requested memory is reserved.
pub type ReserveFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A limit on the memory for results that the clients of an interface have not read yet. Without
/// the limit, many clients that read slowly could use up the memory of the process.
pub trait ReserveMemory: Send + Sync + 'static {
    /// Reserves memory for a result. Returns `None` if the memory was reserved at once; otherwise
    /// returns a future that resolves when the memory is reserved.
    fn reserve(&self, bytes: usize) -> Option<ReserveFuture>;

    /// Reserves memory for a result only if enough memory is free now. Returns whether the memory
    /// is reserved.
    fn try_reserve(&self, bytes: usize) -> bool;

    /// Releases reserved memory that no result needs.
    fn release(&self, bytes: usize);

    /// Returns whether clients of the same principal use reserved memory or wait for memory.
    fn is_in_use(&self) -> bool;
}

/// The limited memory for the results of a client's calls. Cheap to clone.
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

    /// Returns this memory for calls whose results are sent together in one response. A reservation
    /// for such a call fails instead of waiting: another result of the same response may hold the
    /// memory, so waiting could be a deadlock.
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

    /// Reserves memory for a result. Waits for free memory until `deadline`, unless the memory is
    /// [shared](Self::shared). Returns whether the memory is reserved.
    pub async fn reserve(&self, bytes: usize, deadline: Instant) -> bool {
        if self.is_shared {
            return self.try_reserve(bytes);
        }
        match self.memory.reserve(bytes) {
            None => true,
            Some(reservation) => timeout_at(deadline, reservation).await.is_ok(),
        }
    }

    /// Reserves memory for a result only if enough memory is free now. Returns whether the memory
    /// is reserved.
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

/// Two memories are equal if they belong to the same client.
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
