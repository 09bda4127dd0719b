use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pillion_core::mcp::{Progress, ProgressCallback};

use super::{Desk, Mailbox};
use crate::mcp::errand::Errand;
use crate::runtime::Bound;
use crate::wait::JobSender;

/// How many reports of progress wait for one PHP thread; then they are dropped, for what
/// comes later says more.
const MOST_WAITING_REPORTS: usize = 256;

tokio::task_local! {
    /// The line of the task. A question that comes on the stream of a request is heard inside
    /// the task of that request, and so finds whose it is.
    pub(super) static LINE: Arc<Caller>;
}

/// A call, or several, and the PHP thread that may wait for it.
pub struct Caller {
    pub(super) errands: JobSender<Errand>,
    /// That of the PHP object whose call it is.
    pub(super) mailbox: Arc<Mailbox>,
    /// How often somebody waits: a callback may wait for the call that it is called by.
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

    /// Whether a PHP thread waits.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waits.load(Ordering::Acquire) > 0
    }

    /// Whether a PHP thread waits, or may come to wait.
    pub(super) fn is_there(&self) -> bool {
        self.is_waited_for() || self.is_running.load(Ordering::Acquire)
    }
}

/// One report on its way to PHP.
pub struct Ticket(Arc<Caller>);

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.waiting_reports.fetch_sub(1, Ordering::Relaxed);
    }
}

/// PHP's end of a call, which is listed at the desk for as long as this lives. A forked child
/// must leave it alone: see [`Bound`].
pub struct Line {
    pub(super) desk: Arc<Desk>,
    pub(super) caller: Arc<Caller>,
}

impl Line {
    /// Makes a call that of this line, so that what the server asks on its behalf finds it.
    pub fn call<F: Future>(&self, call: F) -> impl Future<Output = F::Output> + use<F> {
        let ended = Ended(self.desk.clone(), self.caller.clone());
        let call = LINE.scope(Arc::clone(&self.caller), call);
        async move {
            let outcome = call.await;
            drop(ended);
            outcome
        }
    }

    /// Tells PHP how far one of the calls has come.
    pub fn reports(&self, call: usize) -> ProgressCallback {
        let caller = Arc::clone(&self.caller);
        Arc::new(move |progress: Progress| {
            let waiting = caller.waiting_reports.fetch_add(1, Ordering::Relaxed);
            let ticket = Ticket(Arc::clone(&caller));
            if waiting < MOST_WAITING_REPORTS {
                (caller.errands)(Errand::Progress {
                    call,
                    progress,
                    ticket,
                });
            }
        })
    }

    /// From now on somebody waits, until what this returns is dropped.
    pub fn wait(&self) -> Bound<Wait> {
        self.caller.waits.fetch_add(1, Ordering::AcqRel);
        self.desk.begin_to_wait(&self.caller);
        Bound::new(Wait(Arc::clone(&self.desk), Arc::clone(&self.caller)))
    }

    /// What this line is to do for the server, if there is anything.
    pub fn take(&self) -> Option<Errand> {
        self.desk.take(&self.caller)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.desk.close(&self.caller);
    }
}

/// Somebody waits for a call as long as this lives.
pub struct Wait(Arc<Desk>, Arc<Caller>);

impl Drop for Wait {
    fn drop(&mut self) {
        self.1.waits.fetch_sub(1, Ordering::AcqRel);
        self.0.redirect();
    }
}

/// When it is dropped the call has ended, whether or not PHP has looked.
struct Ended(Arc<Desk>, Arc<Caller>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.1.is_running.store(false, Ordering::Release);
        self.0.redirect();
    }
}
