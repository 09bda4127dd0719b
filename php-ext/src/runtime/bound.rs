use std::mem::ManuallyDrop;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::forks;
use crate::zend::Failure;

/// State that belongs to one process and is created on first use. A forked child leaks the state of
/// its parent, and creates its own.
pub struct PerProcess<T>(Mutex<Option<Bound<T>>>);

impl<T> PerProcess<T> {
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Calls `work` with the state of this process, which `create` makes on first use.
    ///
    /// # Errors
    /// The failure of `create`.
    pub fn with<R>(
        &self,
        create: impl FnOnce() -> Result<T, Failure>,
        work: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Failure> {
        let mut slot = self.slot();
        if slot.as_ref().is_none_or(|state| state.get().is_none()) {
            *slot = Some(Bound::new(create()?));
        }
        let state = slot.as_mut().and_then(Bound::get_mut);
        state
            .map(work)
            .ok_or_else(|| Failure::error("Pillion has no runtime"))
    }

    /// Calls `work` with the state of this process, if it was created.
    pub fn peek<R>(&self, work: impl FnOnce(&T) -> R) -> Option<R> {
        self.slot().as_ref().and_then(Bound::get).map(work)
    }

    /// Takes the state of this process, if it was created.
    pub fn take(&self) -> Option<T> {
        self.slot().take().and_then(Bound::into_inner)
    }

    fn slot(&self) -> MutexGuard<'_, Option<Bound<T>>> {
        // A panic while the lock is held leaves a valid value behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A value that only the process that created it may use or drop, such as one that owns
/// connections, tasks or threads. A forked child leaks the value.
#[derive(Debug)]
pub struct Bound<T> {
    value: ManuallyDrop<T>,
    /// The number of the process that owns the value; `None` once the value was taken.
    process: Option<u32>,
}

impl<T> Bound<T> {
    /// Binds a value to this process.
    pub fn new(value: T) -> Self {
        Self {
            value: ManuallyDrop::new(value),
            process: Some(forks::process_number()),
        }
    }

    /// Returns the value in the process that created it, and `None` in any other process.
    pub fn get(&self) -> Option<&T> {
        self.is_ours().then_some(&*self.value)
    }

    /// Returns the value like [`get`](Self::get), but mutable.
    fn get_mut(&mut self) -> Option<&mut T> {
        self.is_ours().then_some(&mut *self.value)
    }

    /// Takes the value in the process that created it. Any other process leaks the value.
    pub fn into_inner(mut self) -> Option<T> {
        let ours = self.is_ours();
        // Without an owner, `drop` does not touch the value.
        self.process = None;
        // SAFETY: the value is taken once: `self` ends here and `drop` does not touch it.
        ours.then(|| unsafe { ManuallyDrop::take(&mut self.value) })
    }

    fn is_ours(&self) -> bool {
        self.process == Some(forks::process_number())
    }
}

impl<T> Drop for Bound<T> {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: `drop` runs once, and no other code drops the value.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
