//! Which process this is, among those that are forked from one another. To ask the system
//! for its id is dear where that is done a dozen times a call; a fork says itself that it
//! has happened.

use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between this process and the one that loaded the extension.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A number that this process has, and no other that is forked from it or that it is forked
/// from.
pub fn so_far() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Begins to count, when the extension is loaded.
///
/// # Errors
/// When there is no memory for that.
pub fn watch() -> io::Result<()> {
    // SAFETY: the handler is a function of this library, which is taken off the list when it
    // is unloaded; it only counts, which may be done at any time.
    match unsafe { pthread_atfork(None, None, Some(count)) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

type Handler = Option<extern "C" fn()>;

unsafe extern "C" {
    /// POSIX; not among the bindings that the crate `libc` has for Linux.
    fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
}
