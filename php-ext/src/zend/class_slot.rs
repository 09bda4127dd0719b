use std::sync::atomic::{AtomicPtr, Ordering};

use ext_php_rs::zend::ClassEntry;

/// Stores the entry of a registered class.
#[derive(Debug)]
pub struct ClassSlot(AtomicPtr<ClassEntry>);

impl ClassSlot {
    pub const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Returns the entry of the class.
    ///
    /// # Panics
    /// If the class is not registered. All classes are registered before any PHP code runs.
    pub fn get(&self) -> &'static ClassEntry {
        // SAFETY: the pointer is null or a class entry that lives until module shutdown.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
            .expect("classes are registered at module start-up")
    }

    pub(super) fn set(&self, entry: *mut ClassEntry) {
        self.0.store(entry, Ordering::Release);
    }
}
