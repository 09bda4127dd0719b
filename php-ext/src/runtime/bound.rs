use super::forks;
use std::mem::ManuallyDrop;

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
    pub(super) fn get_mut(&mut self) -> Option<&mut T> {
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
