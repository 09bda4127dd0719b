//! Routes the server's requests and notifications to the PHP thread that handles them.
//!
//! Each call has a line, its entry at the desk, which holds the channel to the PHP thread of the
//! call. A request waits in the queue of the desk and not in the queue of a line, because no thread
//! may be waiting at that line (as with a `ToolStream` that is not read), or the call may end
//! before PHP takes the request. The desk only wakes up a waiting thread, and this thread then
//! takes the request.

mod line;
mod mailbox;

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pillion_mcp_client::{Notification, RpcError};
use serde_json::Value;
use serde_json::value::RawValue;

use super::errand::{Asked, Errand, Question};
use crate::wait::JobSender;
use line::{Caller, LINE};
pub use line::{Line, Ticket, Wait};
pub use mailbox::Mailbox;

/// The JSON-RPC error code of a request that no PHP thread can answer.
const NOBODY: i64 = -32000;

/// The registry of the PHP threads that use one connection.
#[derive(Default)]
pub struct Desk {
    hall: Mutex<Hall>,
    mailboxes: Mutex<Vec<Weak<Mailbox>>>,
    /// The number of `tools/list_changed` notifications from the server.
    changes: AtomicU64,
}

/// The open lines and the pending jobs.
#[derive(Default)]
struct Hall {
    /// The line whose wait began last is at the end.
    lines: Vec<Arc<Caller>>,
    /// The jobs that no thread has taken yet, oldest first. The engine limits their number.
    errands: VecDeque<Waiting>,
}

/// A job, and the line of its call, if known.
struct Waiting {
    errand: Errand,
    of: Option<Arc<Caller>>,
}

impl Hall {
    /// Returns the line that handles a job: a line of the object that made the call, if it waits,
    /// otherwise the line whose wait began last. A thread waits only at the line where its wait
    /// began last: a thread that waits inside a callback cannot handle jobs of the outer call.
    /// Returns `None` if no thread waits.
    fn target(&self, of: Option<&Arc<Caller>>) -> Option<&Arc<Caller>> {
        let waiting = || self.lines.iter().rev().filter(|line| line.is_waited_for());
        let of_the_object =
            of.and_then(|of| waiting().find(|line| Arc::ptr_eq(&line.mailbox, &of.mailbox)));
        of_the_object.or_else(|| waiting().next())
    }

    /// Wakes up the threads that have a job to take.
    fn redirect(&mut self) {
        if !self.lines.iter().any(|line| line.is_there()) {
            // Dropping a request makes its sender receive the error that no thread can answer.
            self.errands.clear();
        }
        self.errands
            .retain(|waiting| !waiting.errand.is_abandoned());
        let mut told: Vec<&Arc<Caller>> = Vec::new();
        for waiting in &self.errands {
            let target = self.target(waiting.of.as_ref());
            if let Some(target) =
                target.filter(|target| !told.iter().any(|line| Arc::ptr_eq(line, target)))
            {
                (target.errands)(Errand::Look);
                told.push(target);
            }
        }
    }
}

impl Desk {
    /// Registers a call of the PHP object with this mailbox.
    pub fn open(self: &Arc<Self>, errands: JobSender<Errand>, mailbox: &Arc<Mailbox>) -> Line {
        let caller = Arc::new(Caller::new(errands, mailbox));
        lock(&self.hall).lines.push(Arc::clone(&caller));
        Line {
            desk: Arc::clone(self),
            caller,
        }
    }

    /// Delivers every later notification also to this mailbox, as long as the mailbox exists.
    pub fn subscribe(&self, mailbox: &Arc<Mailbox>) {
        let mut mailboxes = lock(&self.mailboxes);
        mailboxes.retain(|mailbox| mailbox.strong_count() > 0);
        mailboxes.push(Arc::downgrade(mailbox));
    }

    /// Returns the number of `tools/list_changed` notifications so far.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Passes a request of the server to PHP: to the object whose call it belongs to, or otherwise
    /// to the object whose wait began last. The second case applies if the call is unknown, as on a
    /// stream that serves all requests, or if the object does not wait. If no object waits but a
    /// call is running, the request waits too.
    ///
    /// Must be called where the request is received, not where its answer is awaited.
    pub fn ask(
        self: &Arc<Self>,
        asked: Asked,
        params: Box<RawValue>,
    ) -> impl Future<Output = Result<Value, RpcError>> + Send + use<> {
        let (question, answer) = Question::new(asked, params);
        self.post(Errand::Question(question));
        async move {
            let nobody = |_| Err(RpcError::new(NOBODY, "Nobody is there to answer"));
            answer.await.unwrap_or_else(nobody)
        }
    }

    /// Queues a job for PHP. The job is dropped if there is no line.
    pub fn post(&self, errand: Errand) {
        let of = LINE.try_with(Arc::clone).ok();
        let mut hall = lock(&self.hall);
        hall.errands.push_back(Waiting { errand, of });
        hall.redirect();
    }

    /// Wakes up the waiting thread. A thread that begins to wait later checks the queue anyway.
    pub fn wake(&self) {
        let of = LINE.try_with(Arc::clone).ok();
        if let Some(line) = lock(&self.hall).target(of.as_ref()) {
            (line.errands)(Errand::Look);
        }
    }

    /// Returns the first job for this line.
    fn take(&self, line: &Arc<Caller>) -> Option<Errand> {
        let mut hall = lock(&self.hall);
        let place = hall.errands.iter().position(|waiting| {
            let target = hall.target(waiting.of.as_ref());
            target.is_some_and(|target| Arc::ptr_eq(target, line))
        })?;
        hall.errands.remove(place).map(|waiting| waiting.errand)
    }

    fn begin_to_wait(&self, line: &Arc<Caller>) {
        let mut hall = lock(&self.hall);
        hall.lines.retain(|other| !Arc::ptr_eq(other, line));
        hall.lines.push(Arc::clone(line));
        hall.redirect();
    }

    fn close(&self, line: &Arc<Caller>) {
        let mut hall = lock(&self.hall);
        hall.lines.retain(|other| !Arc::ptr_eq(other, line));
        hall.redirect();
    }

    fn redirect(&self) {
        lock(&self.hall).redirect();
    }

    /// Handles a notification of the server.
    pub fn hear(&self, notice: &Notification) {
        if notice.method == "notifications/tools/list_changed" {
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
        let mut is_news = false;
        for mailbox in lock(&self.mailboxes).iter().filter_map(Weak::upgrade) {
            is_news |= mailbox.put(notice.clone());
        }
        // A thread that was woken up and has not read its mailbox yet finds this notification too.
        if is_news {
            for line in &lock(&self.hall).lines {
                (line.errands)(Errand::Look);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock is held leaves a valid value behind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
