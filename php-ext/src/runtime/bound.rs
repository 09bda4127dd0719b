use std::mem::ManuallyDrop;

use super::forks;

/// A value that only the process that made it may use or drop: anything with connections,
/// tasks or threads behind it. In a forked child it is forgotten.
#[derive(Debug)]
pub struct Bound<T> {
    value: ManuallyDrop<T>,
    /// The number of the process; none once nobody owns the value any more.
    process: Option<u32>,
}

impl<T> Bound<T> {
    /// Binds a value to this process.
    pub fn new(value: T) -> Self {
        Self {
            value: ManuallyDrop::new(value),
            process: Some(forks::so_far()),
        }
    }

    /// The value, in the process that made it.
    pub fn get(&self) -> Option<&T> {
        self.is_ours().then_some(&*self.value)
    }

    /// Same as [`get`](Self::get), to be changed.
    pub(super) fn get_mut(&mut self) -> Option<&mut T> {
        self.is_ours().then_some(&mut *self.value)
    }

    /// The value, in the process that made it; elsewhere it is forgotten.
    pub fn into_inner(mut self) -> Option<T> {
        let ours = self.is_ours();
        // So that `drop` leaves the value alone.
        self.process = None;
        // SAFETY: the value is taken once: `self` ends here and `drop` does not touch it.
        ours.then(|| unsafe { ManuallyDrop::take(&mut self.value) })
    }

    fn is_ours(&self) -> bool {
        self.process == Some(forks::so_far())
    }
}

impl<T> Drop for Bound<T> {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
