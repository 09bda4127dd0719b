//! Identifies the current process among processes that fork from one another. Reading the process
//! id takes a system call, which is too expensive when it happens a dozen times per call. A fork
//! handler counts the forks instead.

use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks between this process and the one that loaded the extension.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Returns a number that differs from that of every ancestor and descendant of this process.
pub fn process_number() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Starts counting, when the extension is loaded.
///
/// # Errors
/// An error if there is not enough memory.
pub fn start_counting() -> io::Result<()> {
    // SAFETY: `count_fork` is a function of this library, and libc unregisters the handler when the
    // library is unloaded. `count_fork` only increments an atomic counter, which is
    // async-signal-safe.
    match unsafe { pthread_atfork(None, None, Some(count_fork)) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

type Handler = Option<extern "C" fn()>;

unsafe extern "C" {
    /// A POSIX function for which the crate `libc` has no binding on Linux.
    fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
}
