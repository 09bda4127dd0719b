use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pillion_mcp_client::{ProgressCallback, ProgressNotification};

use super::{MessageRouter, NotificationInbox};
use crate::mcp::server_job::ServerJob;
use crate::runtime::ProcessBound;
use crate::wait::JobSender;

/// Maximum number of progress reports that wait for one PHP thread. Above this number, new reports
/// are dropped, because each later report makes the earlier ones obsolete.
const MAX_PENDING_REPORTS: usize = 256;

tokio::task_local! {
    /// The call that the current task belongs to. A request on the response stream of a call is
    /// received inside the task of that call, so the task-local value identifies the call.
    pub(super) static CURRENT_CALL: Arc<CallEntry>;
}

/// One or several calls, and the PHP thread that may wait for them.
pub struct CallEntry {
    pub(super) job_sender: JobSender<ServerJob>,
    /// The inbox of the PHP object that made the call.
    pub(super) inbox: Arc<NotificationInbox>,
    /// The number of waits for the call that are in progress. The number may exceed one, because a
    /// callback may wait for the call that invoked it.
    wait_count: AtomicUsize,
    is_running: AtomicBool,
    pending_report_count: AtomicUsize,
}

impl CallEntry {
    pub(super) fn new(job_sender: JobSender<ServerJob>, inbox: &Arc<NotificationInbox>) -> Self {
        Self {
            job_sender,
            inbox: Arc::clone(inbox),
            wait_count: AtomicUsize::new(0),
            is_running: AtomicBool::new(true),
            pending_report_count: AtomicUsize::new(0),
        }
    }

    /// Returns whether a PHP thread waits for the call.
    pub(super) fn has_waiter(&self) -> bool {
        self.wait_count.load(Ordering::Acquire) > 0
    }

    /// Returns whether a PHP thread waits for the call, or may wait later.
    pub(super) fn can_have_waiter(&self) -> bool {
        self.has_waiter() || self.is_running.load(Ordering::Acquire)
    }
}

/// Counts one progress report toward [`MAX_PENDING_REPORTS`], until this value is dropped.
pub struct ProgressPermit(Arc<CallEntry>);

impl Drop for ProgressPermit {
    fn drop(&mut self) {
        self.0.pending_report_count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// PHP's handle to a call. The call stays registered with the router until the handle is dropped. A
/// forked child must not use the handle: see [`ProcessBound`].
pub struct CallHandle {
    pub(super) router: Arc<MessageRouter>,
    pub(super) entry: Arc<CallEntry>,
}

impl CallHandle {
    /// Wraps the future of a call, so that the server's requests during the call reach this handle.
    pub fn run<F: Future>(&self, call: F) -> impl Future<Output = F::Output> + use<F> {
        let end_guard = CallEndGuard(self.router.clone(), self.entry.clone());
        let scoped_call = CURRENT_CALL.scope(Arc::clone(&self.entry), call);
        async move {
            let outcome = scoped_call.await;
            drop(end_guard);
            outcome
        }
    }

    /// Returns a callback that reports the progress of one of the calls to PHP.
    pub fn progress_callback(&self, call_index: usize) -> ProgressCallback {
        let entry = Arc::clone(&self.entry);
        Arc::new(move |progress: ProgressNotification| {
            let pending_count = entry.pending_report_count.fetch_add(1, Ordering::Relaxed);
            let permit = ProgressPermit(Arc::clone(&entry));
            if pending_count < MAX_PENDING_REPORTS {
                (entry.job_sender)(ServerJob::Progress {
                    call_index,
                    progress,
                    permit,
                });
            }
        })
    }

    /// Marks the call as waited for, until the returned value is dropped.
    pub fn begin_wait(&self) -> ProcessBound<WaitGuard> {
        self.entry.wait_count.fetch_add(1, Ordering::AcqRel);
        self.router.mark_waiting(&self.entry);
        ProcessBound::new(WaitGuard(Arc::clone(&self.router), Arc::clone(&self.entry)))
    }

    /// Removes and returns the next job for this call; `None` if there is none.
    pub fn take_job(&self) -> Option<ServerJob> {
        self.router.take_job(&self.entry)
    }
}

impl Drop for CallHandle {
    fn drop(&mut self) {
        self.router.close_call(&self.entry);
    }
}

/// Marks a call as waited for, until this value is dropped.
pub struct WaitGuard(Arc<MessageRouter>, Arc<CallEntry>);

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.1.wait_count.fetch_sub(1, Ordering::AcqRel);
        self.0.wake_targets();
    }
}

/// Marks a call as ended when this value is dropped, even if PHP has not read the result yet.
struct CallEndGuard(Arc<MessageRouter>, Arc<CallEntry>);

impl Drop for CallEndGuard {
    fn drop(&mut self) {
        self.1.is_running.store(false, Ordering::Release);
        self.0.wake_targets();
    }
}
