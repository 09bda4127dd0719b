use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pillion_core::mcp::{Notification, Progress, ProgressCallback, RpcError};
use serde_json::Value;
use serde_json::value::RawValue;

use super::errand::{Asked, Errand, Question};
use crate::wait::JobSender;

/// How many reports of progress wait for one PHP thread; then they are dropped, for what
/// comes later says more.
const MOST_WAITING_REPORTS: usize = 256;

/// How many notices wait for one object; then the oldest go.
const MOST_WAITING_NOTICES: usize = 256;

/// The code that a server gets whose question finds nobody.
const NOBODY: i64 = -32000;

tokio::task_local! {
    /// The PHP thread that waits for the task. A question that comes on the stream of a
    /// request is heard inside the task of that request, and so finds who waits for it.
    static LINE: Arc<Caller>;
}

/// Where one connection's PHP threads are found.
#[derive(Default)]
pub struct Desk {
    /// Those that wait; the last came last.
    callers: Mutex<Vec<Arc<Caller>>>,
    mailboxes: Mutex<Vec<Weak<Mailbox>>>,
    /// How often the server said that its tools are others now.
    changes: AtomicU64,
}

/// A PHP thread that waits.
pub struct Caller {
    errands: JobSender<Errand>,
    waiting_reports: AtomicUsize,
}

/// One report on its way to PHP.
pub struct Ticket(Arc<Caller>);

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.waiting_reports.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Notices for one PHP object.
#[derive(Default)]
pub struct Mailbox(Mutex<VecDeque<Notification>>);

impl Mailbox {
    /// The notices that wait, the oldest first.
    pub fn take_all(&self) -> VecDeque<Notification> {
        std::mem::take(&mut *lock(&self.0))
    }

    /// Those that could not be delivered, before what has come since.
    pub fn put_back(&self, mut notices: VecDeque<Notification>) {
        let mut since = lock(&self.0);
        notices.append(&mut since);
        *since = notices;
    }

    /// Whether it is the first that waits.
    fn put(&self, notice: Notification) -> bool {
        let mut notices = lock(&self.0);
        if notices.len() == MOST_WAITING_NOTICES {
            notices.pop_front();
        }
        notices.push_back(notice);
        notices.len() == 1
    }
}

/// A waiting PHP thread is listed for as long as this lives.
pub struct Line {
    desk: Arc<Desk>,
    caller: Arc<Caller>,
}

impl Line {
    /// Runs a call, so that what the server asks on its behalf finds this line.
    pub async fn call<T>(&self, call: impl Future<Output = T>) -> T {
        LINE.scope(Arc::clone(&self.caller), call).await
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
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut callers = lock(&self.desk.callers);
        callers.retain(|caller| !Arc::ptr_eq(caller, &self.caller));
    }
}

impl Desk {
    /// Lists a PHP thread that waits.
    pub fn open(self: &Arc<Self>, errands: JobSender<Errand>) -> Line {
        let caller = Arc::new(Caller {
            errands,
            waiting_reports: AtomicUsize::new(0),
        });
        lock(&self.callers).push(Arc::clone(&caller));
        Line {
            desk: Arc::clone(self),
            caller,
        }
    }

    /// Passes every notice from now on to a mailbox too, as long as it exists.
    pub fn subscribe(&self, mailbox: &Arc<Mailbox>) {
        let mut mailboxes = lock(&self.mailboxes);
        mailboxes.retain(|mailbox| mailbox.strong_count() > 0);
        mailboxes.push(Arc::downgrade(mailbox));
    }

    /// How often the server said that its tools are others now.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Takes a question of the server's to the thread that waits for the request that it
    /// belongs to. Where that cannot be told, as on a stream that serves all requests, it is
    /// the thread that began to wait last: one that waits inside another's callback keeps
    /// the other from hearing anything.
    ///
    /// To be called where the question is heard, not where its answer is waited for.
    pub fn ask(
        &self,
        asked: Asked,
        params: Box<RawValue>,
    ) -> impl Future<Output = Result<Value, RpcError>> + Send + use<> {
        let caller = self.caller();
        async move {
            let nobody = || RpcError::new(NOBODY, "Nobody is there to answer");
            let caller = caller.ok_or_else(nobody)?;
            let (question, answer) = Question::new(asked, params);
            (caller.errands)(Errand::Question(question));
            drop(caller);
            answer.await.unwrap_or_else(|_| Err(nobody()))
        }
    }

    /// Sends an errand to the thread that waits; gives it back when none does.
    pub fn send(&self, errand: Errand) -> Result<(), Errand> {
        match self.caller() {
            Some(caller) => {
                (caller.errands)(errand);
                Ok(())
            }
            None => Err(errand),
        }
    }

    fn caller(&self) -> Option<Arc<Caller>> {
        let known = LINE.try_with(Arc::clone).ok();
        known.or_else(|| lock(&self.callers).last().cloned())
    }

    /// Hears a notice of the server's.
    pub fn hear(&self, notice: &Notification) {
        if notice.method == "notifications/tools/list_changed" {
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
        let mut is_news = false;
        for mailbox in lock(&self.mailboxes).iter().filter_map(Weak::upgrade) {
            is_news |= mailbox.put(notice.clone());
        }
        // One that has been told and has not looked yet will find this one too.
        if is_news {
            for caller in lock(&self.callers).iter() {
                (caller.errands)(Errand::Look);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock is held leaves a valid value behind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
