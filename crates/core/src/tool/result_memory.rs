use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// Resolves when memory is reserved. If dropped before, reserves nothing.
pub type ReserveFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The memory of an interface for results that wait until their client reads them. Many clients
/// that read slowly could otherwise use up the memory of the process.
pub trait ReserveMemory: Send + Sync + 'static {
    /// Reserves memory for a result of `bytes` bytes. Returns `None` if the memory is reserved,
    /// otherwise a future that resolves when the memory is reserved.
    fn reserve(&self, bytes: usize) -> Option<ReserveFuture>;
}

/// The memory for the results of a client's calls. Cheap to clone.
#[derive(Clone)]
pub struct ResultMemory(Arc<dyn ReserveMemory>);

impl ResultMemory {
    /// Wraps the memory of a client.
    pub fn new(memory: impl ReserveMemory) -> Self {
        Self(Arc::new(memory))
    }

    /// Reserves memory for a result of `bytes` bytes. Returns `None` if the memory is reserved,
    /// otherwise a future that resolves when the memory is reserved.
    #[must_use]
    pub fn reserve(&self, bytes: usize) -> Option<ReserveFuture> {
        self.0.reserve(bytes)
    }
}

/// Two values are equal if they are the memory of the same client.
impl PartialEq for ResultMemory {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ResultMemory {}

impl fmt::Debug for ResultMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultMemory").finish_non_exhaustive()
    }
}
