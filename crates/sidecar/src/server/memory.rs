use std::sync::atomic::{AtomicBool, Ordering};

static IS_TRIMMING: AtomicBool = AtomicBool::new(false);

/// Returns the freed memory of large responses from the allocator to the system. Runs at most once
/// at a time, on a thread that serves no requests.
pub(super) fn trim_allocator() {
    if IS_TRIMMING.swap(true, Ordering::AcqRel) {
        return;
    }
    tokio::task::spawn_blocking(|| {
        trim();
        IS_TRIMMING.store(false, Ordering::Release);
    });
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    #[expect(unsafe_code, reason = "the C library alone knows its free memory")]
    // SAFETY: malloc_trim(3) may be called at any time, on any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}
