use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pillion_mcp_client::{Progress, ProgressCallback};

use super::{Desk, Mailbox};
use crate::mcp::errand::Errand;
use crate::runtime::Bound;
use crate::wait::JobSender;

/// Maximum number of progress reports that wait for one PHP thread. Further reports are dropped,
/// because later reports are more recent.
const MAX_WAITING_REPORTS: usize = 256;

tokio::task_local! {
    /// The line of the task. A request on the response stream of a call is received inside the task
    /// of that call, so this value identifies the call.
    pub(super) static LINE: Arc<Caller>;
}

/// One or several calls, and the PHP thread that may wait for them.
pub struct Caller {
    pub(super) errands: JobSender<Errand>,
    /// The mailbox of the PHP object that made the call.
    pub(super) mailbox: Arc<Mailbox>,
    /// The number of waits in progress: a callback may wait for the call that invoked the callback.
    waits: AtomicUsize,
    is_running: AtomicBool,
    waiting_reports: AtomicUsize,
}

impl Caller {
    pub(super) fn new(errands: JobSender<Errand>, mailbox: &Arc<Mailbox>) -> Self {
        Self {
            errands,
            mailbox: Arc::clone(mailbox),
            waits: AtomicUsize::new(0),
            is_running: AtomicBool::new(true),
            waiting_reports: AtomicUsize::new(0),
        }
    }

    /// Returns whether a PHP thread waits.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waits.load(Ordering::Acquire) > 0
    }

    /// Returns whether a PHP thread waits or may wait later.
    pub(super) fn is_there(&self) -> bool {
        self.is_waited_for() || self.is_running.load(Ordering::Acquire)
    }
}

/// One progress report on its way to PHP.
pub struct Ticket(Arc<Caller>);

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.waiting_reports.fetch_sub(1, Ordering::Relaxed);
    }
}

/// PHP's handle of a call. The call is registered at the desk as long as this value lives. A forked
/// child must not use it: see [`Bound`].
pub struct Line {
    pub(super) desk: Arc<Desk>,
    pub(super) caller: Arc<Caller>,
}

impl Line {
    /// Runs a call on this line, so that the server's requests during the call reach this line.
    pub fn call<F: Future>(&self, call: F) -> impl Future<Output = F::Output> + use<F> {
        let ended = Ended(self.desk.clone(), self.caller.clone());
        let call = LINE.scope(Arc::clone(&self.caller), call);
        async move {
            let outcome = call.await;
            drop(ended);
            outcome
        }
    }

    /// Returns a callback that reports the progress of one of the calls to PHP.
    pub fn reports(&self, call: usize) -> ProgressCallback {
        let caller = Arc::clone(&self.caller);
        Arc::new(move |progress: Progress| {
            let waiting = caller.waiting_reports.fetch_add(1, Ordering::Relaxed);
            let ticket = Ticket(Arc::clone(&caller));
            if waiting < MAX_WAITING_REPORTS {
                (caller.errands)(Errand::Progress {
                    call,
                    progress,
                    ticket,
                });
            }
        })
    }

    /// Marks the line as waited for, until the returned value is dropped.
    pub fn wait(&self) -> Bound<Wait> {
        self.caller.waits.fetch_add(1, Ordering::AcqRel);
        self.desk.begin_to_wait(&self.caller);
        Bound::new(Wait(Arc::clone(&self.desk), Arc::clone(&self.caller)))
    }

    /// Returns the next job for this line, if there is one.
    pub fn take(&self) -> Option<Errand> {
        self.desk.take(&self.caller)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.desk.close(&self.caller);
    }
}

/// A thread waits for a call as long as this value lives.
pub struct Wait(Arc<Desk>, Arc<Caller>);

impl Drop for Wait {
    fn drop(&mut self) {
        self.1.waits.fetch_sub(1, Ordering::AcqRel);
        self.0.redirect();
    }
}

/// Marks the end of the call when it is dropped, even if PHP has not read the result yet.
struct Ended(Arc<Desk>, Arc<Caller>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.1.is_running.store(false, Ordering::Release);
        self.0.redirect();
    }
}
