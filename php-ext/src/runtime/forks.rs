//! Identifies the current process among processes that fork from one another. Reading the process
//! ID takes a system call, which is too expensive because each tool call identifies the process a
//! dozen times. A fork handler counts the forks instead.

use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks between this process and the process that loaded the extension.
static FORK_COUNT: AtomicU32 = AtomicU32::new(0);

/// Returns a number that differs from that of every ancestor and descendant of this process.
pub fn process_number() -> u32 {
    FORK_COUNT.load(Ordering::Relaxed)
}

/// Starts counting forks. Must be called when the extension is loaded.
///
/// # Errors
/// An error if there is not enough memory.
pub fn start_counting() -> io::Result<()> {
    // SAFETY: `count_fork` is a function of this library, and libc unregisters the handler when the
    // library is unloaded. `count_fork` only increments an atomic counter, which is
    // async-signal-safe.
    match unsafe { pthread_atfork(None, None, Some(count_fork)) } {
        0 => Ok(()),
        error_number => Err(io::Error::from_raw_os_error(error_number)),
    }
}

extern "C" fn count_fork() {
    FORK_COUNT.fetch_add(1, Ordering::Relaxed);
}

type ForkHandler = Option<extern "C" fn()>;

unsafe extern "C" {
    /// A POSIX function for which the crate `libc` has no binding on Linux.
    fn pthread_atfork(prepare: ForkHandler, parent: ForkHandler, child: ForkHandler) -> c_int;
}
