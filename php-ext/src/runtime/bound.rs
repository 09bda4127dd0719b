use std::mem::ManuallyDrop;
use std::sync::Mutex;

use super::{forks, lock};
use crate::zend::{Failure, Result};

/// State that belongs to one process and is created on first use. A forked child leaks the state of
/// its parent, and creates a new state.
pub struct PerProcess<T>(Mutex<Option<ProcessBound<T>>>);

impl<T> PerProcess<T> {
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Calls `work` with the state of this process. `create` creates the state on first use.
    ///
    /// # Errors
    /// The failure of `create`.
    pub fn with<R>(
        &self,
        create: impl FnOnce() -> Result<T>,
        work: impl FnOnce(&mut T) -> R,
    ) -> Result<R> {
        let mut slot = lock(&self.0);
        if slot.as_ref().is_none_or(|state| state.get().is_none()) {
            *slot = Some(ProcessBound::new(create()?));
        }
        let state = slot.as_mut().and_then(ProcessBound::get_mut);
        state
            .map(work)
            .ok_or_else(|| Failure::error("Pillion could not create its state for the process"))
    }

    /// Calls `work` with the state of this process, if it was created.
    pub fn peek<R>(&self, work: impl FnOnce(&T) -> R) -> Option<R> {
        lock(&self.0).as_ref().and_then(ProcessBound::get).map(work)
    }

    /// Takes the state of this process, if it was created.
    pub fn take(&self) -> Option<T> {
        lock(&self.0).take().and_then(ProcessBound::into_inner)
    }
}

/// A value that only the process that created it may use or drop, such as one that owns
/// connections, tasks or threads. A forked child leaks the value.
#[derive(Debug)]
pub struct ProcessBound<T> {
    value: ManuallyDrop<T>,
    /// The result of `forks::process_number()` in the process that owns the value; `None` after the
    /// value was taken.
    process_number: Option<u32>,
}

impl<T> ProcessBound<T> {
    /// Binds a value to this process.
    pub fn new(value: T) -> Self {
        Self {
            value: ManuallyDrop::new(value),
            process_number: Some(forks::process_number()),
        }
    }

    /// Returns the value in the process that created it, and `None` in any other process.
    pub fn get(&self) -> Option<&T> {
        self.is_of_this_process().then_some(&*self.value)
    }

    /// Returns the value like [`get`](Self::get), but mutable.
    fn get_mut(&mut self) -> Option<&mut T> {
        self.is_of_this_process().then_some(&mut *self.value)
    }

    /// Returns the value in the process that created it. In any other process, leaks the value and
    /// returns `None`.
    pub fn into_inner(mut self) -> Option<T> {
        let is_of_this_process = self.is_of_this_process();
        // The process number is cleared, so that `drop` does not touch the value.
        self.process_number = None;
        // SAFETY: the value is taken only once: `self` is consumed by this function, and `drop`
        // does not touch the value.
        is_of_this_process.then(|| unsafe { ManuallyDrop::take(&mut self.value) })
    }

    fn is_of_this_process(&self) -> bool {
        self.process_number == Some(forks::process_number())
    }
}

impl<T> Drop for ProcessBound<T> {
    fn drop(&mut self) {
        if self.is_of_this_process() {
            // SAFETY: `drop` runs once, and no other code drops the value.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
